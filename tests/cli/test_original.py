"""The original's command lines work, or are answered with what works here."""

from __future__ import annotations

import pytest

from runner.cli import original
from runner.cli.main import COMMANDS
from runner.core.errors import UsageError


def read(text: str) -> original.CommandLine:
    return original.read(text.split(), COMMANDS)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("-p .", "run -p ."),
        ("-p . -o out --force", "run -p . -o out --force"),
        ("-p . show", "show"),
        ("-p . --queue=rai_amd64_ece408 queued", "ps"),
        ("-p . version", "--version"),
        ("-p x validate --json", "validate -p x --json"),
        ("-p x run --keep-going", "run -p x --keep-going"),
        ("buildinfo", "--version"),
        ("queued", "ps"),
        ("whoami --json", "login --status --json"),
        ("-p lab --submit=m3", "submit m3 -p lab"),
        ("run --submit=m3 --path=lab -y", "submit m3 --path=lab -y"),
        ("run --submit --rehearse", "submit final --rehearse"),
        ("-p lab submit m3", "submit -p lab m3"),
        (".", "run ."),
        ("../lab --keep-going", "run ../lab --keep-going"),
        ("run -p . -d", "run -p . -d"),
        ("-p . -q", "run -p . -q"),
        ("show -v", "show -v"),
        ("run -p . -- -v --submit", "run -p . -- -v --submit"),
        ("-p -v", "run -p"),
        ("--path=x --engine local", "run --path=x --engine local"),
        ("ps", "ps"),
        ("-h", "-h"),
        ("parse -- --debug", "parse -- --debug"),
        ("", ""),
    ],
)
def test_a_command_line_of_the_original_means_one_of_ours(typed, meant):
    line = read(typed)
    assert (line.words, line.debug) == (meant.split(), False)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("-p . --queue=rai_amd64", "ignoring --queue rai_amd64: a server has one"),
        ("run --queue rai_amd64", "ignoring --queue rai_amd64: a server has one"),
        ("-p . -v", "ignoring --verbose: every line is shown anyway"),
        ("-p . --ratelimit=false", "ignoring --ratelimit false: there is no rate limi"),
        ("-p . --arch s390x", "ignoring --arch s390x: a run uses the architecture of"),
        ("-p . -s hunter2", "ignoring --secret: nothing here needs a secret"),
    ],
)
def test_an_option_that_has_no_effect_here_is_ignored_and_said(typed, said):
    line = read(typed)

    (note,) = line.notes
    assert note.startswith(said) and "hunter2" not in note
    assert line.words in (["run"], ["run", "-p", "."])


@pytest.mark.parametrize(
    ("typed", "colour"),
    [
        ("-p . -c", True),
        ("-p . -c=true", True),
        ("-p . -c=false", False),
        ("run -p . -c false", False),
    ],
)
def test_colours_can_be_turned_off_as_in_the_original(typed, colour):
    line = read(typed)

    assert line.colour is colour
    assert line.words == ["run", "-p", "."]


@pytest.mark.parametrize(
    "typed", ["-p . -d", "-d -p .", "-p . -dv", "-p . --debug", "run --debug -p ."]
)
def test_d_is_debug_without_the_word_run(typed):
    line = read(typed)

    assert line.debug
    assert line.words == ["run", "-p", "."]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("submitted", "`rai ranking` lists what was judged on this machine"),
        ("-p . --build other.yml", "`-p other.yml` names a build file"),
        ("selfupdate", "pip does"),
    ],
)
def test_what_needs_a_server_is_refused_with_what_to_do_instead(typed, said):
    with pytest.raises(UsageError) as caught:
        read(typed)

    assert said in str(caught.value)
    assert caught.value.reason.exit_code == 2


def test_no_answer_hides_a_command():
    assert not {*original.ANSWERS, *original.SAME} & {*COMMANDS}
