"""What the words of a command line mean before any option is read."""

from __future__ import annotations

import pytest

from runner.cli.original import Option, contradictions, routed, without_debug

PATH = Option("path", ("--path", "-p"), takes_value=True)
KEEP = Option("keep-going", ("--keep-going", "--no-keep-going"), takes_value=False)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["-p", "."], ["run", "-p", "."]),
        (["--path=x", "--engine", "local"], ["run", "--path=x", "--engine", "local"]),
        (["run", "-p", "."], ["run", "-p", "."]),
        (["ps"], ["ps"]),
        (["--help"], ["--help"]),
        (["-h"], ["-h"]),
        ([], []),
    ],
)
def test_rai_with_options_alone_is_rai_run(typed, meant):
    assert meant == routed(typed)


@pytest.mark.parametrize(
    ("typed", "kept", "debug"),
    [
        (["run", "--debug", "-p", "."], ["run", "-p", "."], True),
        (["--debug", "ps"], ["ps"], True),
        (["ps"], ["ps"], False),
        (["parse", "--", "--debug"], ["parse", "--", "--debug"], False),
    ],
)
def test_debug_counts_wherever_it_stands(typed, kept, debug):
    assert (kept, debug) == without_debug(typed)


@pytest.mark.parametrize(
    "typed",
    [
        ["-p", "a", "-p", "b"],
        ["-pa", "--path", "b"],
        ["--path=a", "-p", "b"],
        ["-p", "a", "--keep-going", "--path=b"],
        ["--keep-going", "--no-keep-going"],
    ],
)
def test_an_option_given_twice_with_different_values_is_refused(typed):
    assert len(contradictions(typed, [PATH, KEEP])) == 1


@pytest.mark.parametrize(
    "typed",
    [
        ["-p", "a", "--path=a"],
        ["--keep-going", "--keep-going"],
        ["-p", "--keep-going", "--keep-going"],
        ["-p", "a", "--", "-p", "b"],
    ],
)
def test_the_same_value_twice_is_fine(typed):
    assert contradictions(typed, [PATH, KEEP]) == []
