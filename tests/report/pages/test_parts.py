"""What becomes of the parts of a report on its page, without a browser."""

from __future__ import annotations

import base64
import hashlib
import re
import sys

import pytest

from runner.report import page as pages
from runner.report.blocks import (
    Bar,
    BarChart,
    Pairs,
    Part,
    Picture,
    Section,
    Table,
    TimelineView,
)
from tests.kit import sample_report as sample
from tests.kit.program import run_program


def page(*parts: Part, **more: object) -> str:
    return pages.report("T", (Section("a", "A", parts),), {}, **more)


def text_of(html: str) -> str:
    body = html.partition("<main")[2].partition("</main>")[0]
    return " ".join(re.sub("<[^>]*>", " ", body).split())


@pytest.mark.lengthy
def test_the_policy_names_each_style_and_script_of_the_page_and_no_other():
    html = sample.page()
    policy = html.partition('http-equiv="Content-Security-Policy" content="')[2]
    rules = dict(
        rule.strip().split(" ", 1)
        for rule in policy.partition('"')[0].replace("&#39;", "'").split(";")
    )
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        texts = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.S)
        hashes = {hashlib.sha256(text.encode()).digest() for text in texts}
        named = {f"'sha256-{base64.b64encode(each).decode()}'" for each in hashes}
        assert set(rules[rule].split()) == named
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"


@pytest.mark.lengthy
def test_no_attribute_of_a_page_is_a_style_or_a_handler():
    tags = re.findall(r"<[a-z][^>]*>", sample.page().partition("<body>")[2])
    assert not [tag for tag in tags if re.search(r"\s(style|on[a-z]+)=", tag)]


@pytest.mark.lengthy
def test_a_page_names_no_address_but_those_of_svg():
    found = set(re.findall(r"[a-z]+://[^\s\"'<>)]*", sample.page()))
    assert found <= {"http://www.w3.org/2000/svg"}


def test_rows_beyond_a_thousand_are_counted():
    rows = tuple((f"row {i}",) for i in range(1234))
    assert "234 more rows are left out." in text_of(page(Table("t", ("name",), rows)))


def test_a_column_without_anything_is_left_out():
    table = Table("t", ("name", "empty", "n"), (("a", "", "1"), ("b", "", "2")))
    assert text_of(page(table)).endswith("name n a 1 b 2")


def test_a_row_leads_to_its_section_if_there_is_one():
    rows = (("x", "1"), ("y", "2"), ("z", "3"))
    table = Table("t", ("name", "n"), rows, anchors=("a", "nowhere", ""), linked=1)
    main = page(table).partition("<main")[2]
    assert re.findall('<a href="#(.*?)">(.*?)</a>', main) == [("a", "1")]


def test_good_and_bad_have_marks_beside_their_words():
    html = page(Table("t", ("a", "result"), (("x", "there"), ("y", "missing"))))
    assert '<span class="good">there</span>' in html
    assert '<span class="bad">missing</span>' in html


def test_a_value_without_a_name_goes_on_with_the_one_above():
    html = page(Pairs((("GPU", "one"), ("", "two"), ("image", "three"))))
    assert "<dt>GPU</dt><dd>one</dd><dd>two</dd></div>" in html


def test_below_a_picture_is_what_it_shows():
    chart = BarChart("Times", "s", (Bar("a", 0.0166, 0.01, 0.02), Bar("b", 1.0)))
    assert "what it shows" in text_of(page(Picture("p", "what it shows", chart)))


def test_where_there_is_no_timeline_the_page_says_so():
    shown = text_of(page(TimelineView("x/t.nvprof", "T")))
    assert "The timeline of x/t.nvprof is not here." in shown


@pytest.mark.programs
def test_the_command_line_loads_what_writes_pages_when_it_writes_one():
    modules = "runner.cli.main, runner.cli.report, runner.cli.timeline"
    code = (
        f"import sys, {modules}; print({{'jinja2', 'markupsafe'}} & set(sys.modules))"
    )
    command = [sys.executable, "-c", code]
    done = run_program(command, check=True)
    assert done.stdout == "set()\n"


def test_two_tables_of_one_title_have_different_names():
    table = Table("t", ("name",), (("a",),))
    html = page(table, table)
    assert re.findall('role="region" aria-label="(.*?)"', html) == ["t", "t (2)"]
