"""Which processes are shown, and what is said of their ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from nvprof.processes import Process, announced, ending, shown, verdict
from nvprof.stream import header

from tests.nvprof import recording


def process(pid, started=1, ended=1, name=None):
    data = recording.Recording().bytes(("app",), pid, started_ns=started, ended=ended)
    return Process(header(data), Path(name or f"{pid}.prof"))


ROOT, EARLY, LATE = process(10, 5), process(11, 2), process(12, 9)


def test_the_launched_process_hides_those_that_come_after_it():
    assert shown([LATE, ROOT], 10, every=False) == [ROOT]


def test_a_command_of_a_shell_is_not_hidden_by_the_last_which_takes_its_process():
    assert shown([EARLY, ROOT, LATE], 10, every=False) == [EARLY, ROOT]


def test_below_a_wrapper_all_are_shown_in_the_order_of_their_start():
    assert shown([LATE, EARLY], 10, every=False) == [EARLY, LATE]


def test_all_are_shown_where_children_are_asked_for():
    assert shown([LATE, ROOT, EARLY], 10, every=True) == [EARLY, ROOT, LATE]


def test_a_process_that_became_another_is_shown_as_both():
    second = process(10, 7, name="10.1.prof")
    assert shown([second, LATE, ROOT], 10, every=False) == [ROOT, second]


@pytest.mark.parametrize(
    ("pid", "every", "before", "expected"),
    [
        (10, False, set(), True),
        (11, False, set(), True),
        (11, False, {10}, False),
        (11, True, {10}, True),
    ],
)
def test_who_is_announced(pid, every, before, expected):
    assert announced(pid, 10, every, before) is expected


def test_an_orderly_end_needs_no_words():
    assert ending(ROOT, [], 10, -11, alive=False) is None


@pytest.mark.parametrize(
    ("pid", "later", "status", "alive", "said"),
    [
        (10, [], -11, True, "killed by SIGSEGV (11)"),
        (10, [], -64, False, "killed by SIGRTMAX (64)"),
        (10, [], 0, True, "did not exit normally"),
        (11, [], 0, True, "still running"),
        (11, [], -15, False, "did not exit normally"),
        (10, [10], 0, True, "another program"),
    ],
)
def test_another_end_is_told(pid, later, status, alive, said):
    others = [process(each) for each in later]
    told = ending(process(pid, ended=0), others, 10, status, alive)
    assert told is not None
    assert said in told


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (0, None),
        (3, "Application returned non-zero code 3"),
        (-11, "Application received signal 139"),
    ],
)
def test_the_verdict_is_in_nvprofs_words(status, said):
    assert verdict(status) == said
