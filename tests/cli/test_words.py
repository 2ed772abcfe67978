"""What the words of a command line mean before any option is read."""

from __future__ import annotations

import pytest

from runner.cli.original import Option, contradictions

PATH = Option("path", ("--path", "-p"), takes_value=True)
KEEP = Option("keep-going", ("--keep-going", "--no-keep-going"), takes_value=False)


@pytest.mark.parametrize(
    "typed",
    [
        ["-p", "a", "-p", "b"],
        ["-pa", "--path", "b"],
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
