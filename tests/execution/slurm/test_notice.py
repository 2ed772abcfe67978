"""Why Slurm tells a job to end, by what squeue prints meanwhile."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core import Reason
from runner.execution import node, slurm_programs

AGAIN, TAKEN, LATE = "REQUEUED", "PREEMPTED", "TIMEOUT"
STOPPED = "CANCELLED"

SET = "2026-11-23T13:20:52"


def printed(
    state: str, reason: str = "None", preempted: str = "N/A", restarts: str = "0"
) -> bytes:
    """Return a job as squeue --Format prints it, in fields of fixed widths."""
    return f"{state:20}{reason:128}{preempted:20}{restarts:12}\n".encode()


@pytest.mark.parametrize(
    ("output", "restarts", "end"),
    [
        (printed("COMPLETING", "TimeLimit"), 0, LATE),
        (printed("TIMEOUT", "TimeLimit"), 0, LATE),
        (printed("COMPLETING"), 0, STOPPED),
        (printed("COMPLETING", restarts="1"), 1, STOPPED),
        (printed("CANCELLED"), 0, STOPPED),
        (printed("COMPLETING", restarts="1"), 0, AGAIN),
        (printed("PENDING", "BeginTime", restarts="1"), 0, AGAIN),
        (printed("PENDING", "job requeued in held state"), 0, AGAIN),
        (printed("RUNNING", preempted=SET), 0, TAKEN),
        (printed("COMPLETING", preempted=SET), 0, TAKEN),
        (printed("PREEMPTED", preempted=SET), 0, TAKEN),
        (printed("RUNNING"), 0, ""),
        (printed("RUNNING", preempted="Unknown", restarts="1"), 1, ""),
        (b"", 0, ""),
        (b"RUNNING\n", 0, ""),
    ],
)
def test_what_slurm_is_about_is_told(output, restarts, end):
    assert node.next_state(output, restarts) == end


@given(st.binary(max_size=400), st.integers(0, 3))
def test_any_output_gives_words_on_one_line_or_none(output, restarts):
    end = node.next_state(output, restarts)

    assert "\n" not in end


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (LATE, Reason.TIME_LIMIT),
        ("OUT_OF_MEMORY", Reason.MEMORY_LIMIT),
        (TAKEN, Reason.CANCELLED),
        ("", Reason.CANCELLED),
    ],
)
def test_a_run_that_slurm_ends_at_a_limit_is_not_cancelled(
    tmp_path, monkeypatch, state, reason
):
    (tmp_path / "printed").write_bytes(printed(state) if state else b"")
    for name in slurm_programs.NEEDED:
        (tmp_path / name).write_text(f"#!/bin/sh\ncat {tmp_path}/printed\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    cancel = node.NodeCancel()
    cancel.by_slurm()
    assert cancel.end[0] is reason
    assert cancel.end[1] == (f"{node.ENDED}: {state}" if state else node.ENDED)


@pytest.mark.slurm
@pytest.mark.parametrize(
    ("words", "end"), [(("scancel",), STOPPED), (("scontrol", "requeue"), AGAIN)]
)
def test_a_job_that_is_being_ended_learns_why(slurm, tmp_path, words, end):
    begun, told = tmp_path / "begun", tmp_path / "told"
    wait = f"until [ -e {told} ]; do sleep 0.02; done"
    loop = f"trap '' TERM; touch {begun}; {wait}"
    job = slurm.submit(loop, "--requeue")
    slurm.until(begun.exists)
    environ = {"SLURM_JOB_ID": f"{job}"}
    assert node.ends_as(environ) == ""
    slurm.ask(*words, f"{job}")
    assert node.ends_as(environ) == end
    told.touch()


def test_outside_of_a_job_nobody_is_asked():
    assert node.ends_as({}) == ""
