"""How a run ended that was handed to Slurm and left no record."""

from __future__ import annotations

import pytest

from runner.core import Reason
from runner.slurm.ending import LeftRun, verdict
from runner.slurm.jobs import SlurmJob

BEGUN = LeftRun("17", begun=True, log="/runs/a/worker.log")
WAITED = LeftRun("17", begun=False, log="/runs/a/worker.log")
NEVER = LeftRun("", begun=False, log="/runs/a/worker.log")


def job(state: str, reason: str = "", node: str = "n1") -> SlurmJob:
    return SlurmJob("17", "rai-0123456789", state, reason, node=node)


@pytest.mark.parametrize(
    ("run", "jobs", "reason", "words"),
    [
        (NEVER, [], Reason.RUNNER_LOST, "never handed to Slurm"),
        (NEVER, None, Reason.RUNNER_LOST, "never handed to Slurm"),
        (WAITED, [], Reason.RUNNER_LOST, "job 17 is not known to Slurm any more"),
        (BEGUN, None, Reason.RUNNER_LOST, "Slurm does not answer"),
        (BEGUN, [job("NODE_FAIL")], Reason.RUNNER_LOST, "job 17 on n1: the job's node"),
        (BEGUN, [job("RUNNING")], Reason.RUNNER_LOST, "ended without a record"),
        (BEGUN, [job("PENDING", node="")], Reason.RUNNER_LOST, "its job waits again"),
        (BEGUN, [job("COMPLETED")], Reason.RUNNER_LOST, "left no record"),
        (WAITED, [job("FAILED")], Reason.RUNNER_LOST, "see /runs/a/worker.log"),
        (BEGUN, [job("TIMEOUT")], Reason.TIME_LIMIT, "time limit"),
        (BEGUN, [job("OUT_OF_MEMORY")], Reason.MEMORY_LIMIT, "memory"),
        (WAITED, [job("CANCELLED")], Reason.CANCELLED, "cancelled in Slurm"),
        (
            WAITED,
            [job("PENDING", "BadConstraints", node="")],
            Reason.NOT_ALLOWED,
            "never start",
        ),
    ],
)
def test_the_end_follows_from_the_last_job(
    run: LeftRun, jobs: list[SlurmJob] | None, reason: Reason, words: str
):
    found = verdict(run, jobs)
    assert found.reason is reason
    assert words in found.message
    assert not found.ran
    assert found.served is (
        reason in (Reason.TIME_LIMIT, Reason.MEMORY_LIMIT, Reason.CANCELLED)
    )
