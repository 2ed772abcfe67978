"""Which processes are shown, and what is said of their ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from nvprof.processes import Process, ending, shown
from nvprof.stream import header

from image.nvprof.tests import recording


def process(pid, started=1, ended=1, name=None):
    data = recording.Recording().bytes(("app",), pid, started_ns=started, ended=ended)
    return Process(header(data), Path(name or f"{pid}.prof"))


ROOT, EARLY, LATE = process(10, 5), process(11, 2), process(12, 9)


def test_a_command_of_a_shell_is_not_hidden_by_the_last_which_takes_its_process():
    assert shown([EARLY, ROOT, LATE], 10, every=False) == [EARLY, ROOT]


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
