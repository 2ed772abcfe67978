"""The lines that a CI system reads."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from runner.core import Place, Severity
from runner.report.reported import Annotation
from runner.terminal import ci
from tests.kit import github


def test_a_text_and_a_property_are_escaped_as_github_reads_them():
    line = ci.command("error", "50%\r\nA:B,C", title="a:b,c%\nd", file="")

    assert line == "::error title=a%3Ab%2Cc%25%0Ad::50%25%0AA:B,C\n"


@given(st.text(), st.text())
def test_whatever_a_text_says_it_is_one_command(title: str, text: str):
    line = ci.annotation(Annotation(title, text))

    (found,) = github.commands(line)
    assert found[0] == "error"
    assert line.count("\n") == 1


def test_no_command_holds_a_sign_that_the_page_of_a_log_formats():
    line = ci.group("##[group]a ##[error]b")

    assert line == r"::group::##\[group]a ##\[error]b" + "\n"


def test_an_annotation_has_a_place_only_with_a_file():
    found = Annotation("t", "x", Severity.WARNING, Place("rai_build.yml", 3, 5))

    assert ci.annotation(found) == "::warning title=t::x\n"
    placed = "::warning file=a/rai_build.yml,line=3,col=5,title=t::x\n"
    assert ci.annotation(found, "a/rai_build.yml") == placed


def test_a_long_message_is_cut_before_github_cuts_it():
    line = ci.annotation(Annotation("t", "x" * 10_000))

    assert len(line) < 4096 + len("::error title=t::")


def test_the_title_of_a_section_holds_no_marker():
    line = ci.section("start", "rai_1", "a\x1b[0Ksection_end:1:x\r\x1b[0K\nb")

    begin = re.compile("\x1b\\[0Ksection_start:[0-9]+:rai_1\r\x1b\\[0K")
    assert "\x1b" not in begin.sub("", line)
    assert line.count("\n") == 1
