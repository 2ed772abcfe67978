"""Whether a run that was handed to Slurm goes on, and how it ended without a record."""

from __future__ import annotations

from typing import Any

import pytest

from runner.core import Reason
from runner.execution import slurm_jobs as slurms
from runner.execution.slurm_jobs import SlurmJob, how_ended, verdict
from runner.store.claim import Standing
from tests.execution.slurm.test_jobs import NEVER as REASONS
from tests.execution.slurm.test_jobs import OVER

Signs = dict[str, Any]
NEVER = float("inf")
NEW: Signs = {"claimed": False, "silent_s": NEVER, "handed_s": 0.5}
FORGOTTEN: Signs = {"claimed": False, "silent_s": NEVER, "handed_s": 60.0}
PACKING: Signs = {"claimed": False, "silent_s": 1.0, "handed_s": 600.0}
BUSY: Signs = {"claimed": True, "silent_s": 1.0, "handed_s": 60.0}
QUIET: Signs = {"claimed": True, "silent_s": 7.0, "handed_s": 60.0}
SILENT: Signs = {"claimed": True, "silent_s": 60.0, "handed_s": 60.0}


def fate(signs: Signs, jobs: list[SlurmJob] | None) -> Standing:
    return slurms.fate(jobs, **signs)


def jobs(*states: str) -> list[SlurmJob]:
    return [SlurmJob(str(n), "rai-0123456789", s) for n, s in enumerate(states)]


@pytest.mark.parametrize("signs", [NEW, FORGOTTEN, PACKING, BUSY, QUIET, SILENT])
def test_no_run_is_lost_while_slurm_does_not_answer(signs):
    on = Standing.ELSEWHERE if signs["claimed"] else Standing.WAITS
    assert fate(signs, None) is on


@pytest.mark.parametrize(
    ("signs", "fit"),
    [
        *((NEW, Standing.WAITS), (PACKING, Standing.WAITS), (FORGOTTEN, Standing.GONE)),
        *((BUSY, Standing.ELSEWHERE), (QUIET, Standing.ELSEWHERE)),
        (SILENT, Standing.GONE),
    ],
)
def test_without_a_job_the_signs_of_life_decide(signs, fit):
    assert fate(signs, []) is fit


@pytest.mark.parametrize("signs", [NEW, FORGOTTEN])
def test_a_run_waits_as_long_as_its_job_does(signs):
    assert fate(signs, jobs("PENDING")) is Standing.WAITS


def test_a_job_that_waits_again_has_no_worker_left_once_that_is_silent():
    assert fate(BUSY, jobs("PENDING")) is Standing.ELSEWHERE
    assert fate(SILENT, jobs("PENDING")) is Standing.GONE


@pytest.mark.parametrize("state", ["RUNNING", "SUSPENDED", "CONFIGURING", "A_NEW_WORD"])
def test_a_run_lives_as_long_as_its_job_does(state):
    assert fate(SILENT, jobs(state)) is Standing.ELSEWHERE
    assert fate(NEW, jobs(state)) is Standing.WAITS


def test_a_job_on_a_dead_node_that_completes_for_ever_ends_the_run():
    assert fate(SILENT, jobs("COMPLETING")) is Standing.GONE
    assert fate(BUSY, jobs("COMPLETING")) is Standing.ELSEWHERE


def test_the_second_of_two_jobs_does_not_end_the_first():
    assert fate(BUSY, jobs("COMPLETED", "RUNNING")) is Standing.ELSEWHERE
    assert fate(SILENT, jobs("COMPLETED", "RUNNING")) is Standing.ELSEWHERE


def test_the_record_of_a_run_whose_job_is_over_comes_within_seconds():
    for state in ("COMPLETED", "FAILED", "NODE_FAIL", "TIMEOUT"):
        assert fate(BUSY, jobs(state)) is Standing.ELSEWHERE
        assert fate(QUIET, jobs(state)) is Standing.GONE


@pytest.mark.parametrize("signs", [NEW, FORGOTTEN])
def test_a_job_that_ended_before_its_run_was_claimed_never_begins_it(signs):
    assert fate(signs, jobs("CANCELLED")) is Standing.GONE


LOG = "/runs/a/worker.log"
LeftRun = dict[str, Any]
BEGUN: LeftRun = {"number": "17", "begun": True, "log": LOG, "said": ""}
WAITED = {**BEGUN, "begun": False}
UNSENT = {**WAITED, "number": ""}


def job(state: str, reason: str = "", node: str = "n1") -> SlurmJob:
    return SlurmJob("17", "rai-0123456789", state, reason, node=node)


@pytest.mark.parametrize(
    ("run", "jobs", "reason", "words"),
    [
        (UNSENT, [], Reason.RUNNER_LOST, "never handed to Slurm"),
        (UNSENT, None, Reason.RUNNER_LOST, "never handed to Slurm"),
        (WAITED, [], Reason.RUNNER_LOST, "job 17 is not known to Slurm any more"),
        (BEGUN, None, Reason.RUNNER_LOST, "Slurm does not answer"),
        (
            BEGUN,
            [job("NODE_FAIL")],
            Reason.RUNNER_LOST,
            "job 17 on n1: state NODE_FAIL",
        ),
        (BEGUN, [job("RUNNING")], Reason.RUNNER_LOST, "ended without a record"),
        (BEGUN, [job("PENDING", node="")], Reason.RUNNER_LOST, "its job waits again"),
        (BEGUN, [job("COMPLETED")], Reason.RUNNER_LOST, "state COMPLETED"),
        (WAITED, [job("FAILED")], Reason.RUNNER_LOST, "see /runs/a/worker.log"),
        (
            {**WAITED, "log": ""},
            [job("FAILED", "JobLaunchFailure")],
            Reason.RUNNER_LOST,
            "the node could not write into the run's folder: RAI_HOME",
        ),
        (BEGUN, [job("TIMEOUT")], Reason.TIME_LIMIT, "state TIMEOUT"),
        (BEGUN, [job("OUT_OF_MEMORY")], Reason.MEMORY_LIMIT, "state OUT_OF_MEMORY"),
        (WAITED, [job("CANCELLED")], Reason.CANCELLED, "state CANCELLED"),
        (
            WAITED,
            [job("PENDING", "BadConstraints", node="")],
            Reason.NOT_ALLOWED,
            "never start it: BadConstraints",
        ),
    ],
)
def test_the_end_follows_from_the_last_job(run, jobs, reason, words):
    found = verdict(jobs, **run)
    assert found.reason is reason
    assert words in found.message
    assert not found.ran
    assert found.served is (
        reason in (Reason.TIME_LIMIT, Reason.MEMORY_LIMIT, Reason.CANCELLED)
    )


@pytest.mark.parametrize("state", [*OVER, "A_NEW_END"])
@pytest.mark.parametrize("reason", ["", "None", "NonZeroExitCode", *REASONS])
def test_no_end_without_a_record_is_a_success(state, reason):
    assert how_ended(state, reason).exit_code != 0


def test_a_job_that_failed_as_it_may_never_start_is_not_allowed():
    assert how_ended("FAILED", "BadConstraints") is Reason.NOT_ALLOWED
    assert how_ended("FAILED", "NonZeroExitCode") is Reason.RUNNER_LOST
    # the reason is that of its wait
    assert how_ended("CANCELLED", "PartitionTimeLimit") is Reason.CANCELLED
    assert how_ended("DEADLINE", "DeadLine") is Reason.TIME_LIMIT
