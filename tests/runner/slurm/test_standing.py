"""Whether a run that was handed to Slurm goes on, from its folder and its jobs."""

from __future__ import annotations

import pytest

from runner.slurm.jobs import SlurmJob
from runner.slurm.standing import RunFate, RunSigns, fate

NEW = RunSigns(claimed=False, silent_s=float("inf"), handed_s=0.5)
FORGOTTEN = RunSigns(claimed=False, silent_s=float("inf"), handed_s=60.0)
PACKING = RunSigns(claimed=False, silent_s=1.0, handed_s=600.0)
BUSY = RunSigns(claimed=True, silent_s=1.0, handed_s=60.0)
QUIET = RunSigns(claimed=True, silent_s=7.0, handed_s=60.0)
SILENT = RunSigns(claimed=True, silent_s=60.0, handed_s=60.0)


def jobs(*states: str) -> list[SlurmJob]:
    return [SlurmJob(str(n), "rai-0123456789", s) for n, s in enumerate(states)]


@pytest.mark.parametrize("signs", [NEW, FORGOTTEN, PACKING])
def test_a_run_waits_while_slurm_does_not_answer(signs: RunSigns):
    assert fate(signs, None) is RunFate.WAITS


@pytest.mark.parametrize("signs", [BUSY, QUIET, SILENT])
def test_a_run_is_never_lost_while_slurm_does_not_answer(signs: RunSigns):
    assert fate(signs, None) is RunFate.LIVES


@pytest.mark.parametrize(
    ("signs", "fit"),
    [
        (NEW, RunFate.WAITS),
        (PACKING, RunFate.WAITS),
        (FORGOTTEN, RunFate.GONE),
        (BUSY, RunFate.LIVES),
        (QUIET, RunFate.LIVES),
        (SILENT, RunFate.GONE),
    ],
)
def test_without_a_job_the_signs_of_life_decide(signs: RunSigns, fit: RunFate):
    assert fate(signs, []) is fit


@pytest.mark.parametrize("signs", [NEW, FORGOTTEN])
def test_a_run_waits_as_long_as_its_job_does(signs: RunSigns):
    assert fate(signs, jobs("PENDING")) is RunFate.WAITS


def test_a_job_that_waits_again_has_no_worker_left_once_that_is_silent():
    assert fate(BUSY, jobs("PENDING")) is RunFate.LIVES
    assert fate(SILENT, jobs("PENDING")) is RunFate.GONE


@pytest.mark.parametrize("state", ["RUNNING", "SUSPENDED", "CONFIGURING", "A_NEW_WORD"])
def test_a_run_lives_as_long_as_its_job_does(state: str):
    assert fate(SILENT, jobs(state)) is RunFate.LIVES
    assert fate(NEW, jobs(state)) is RunFate.WAITS


def test_a_job_on_a_dead_node_that_completes_for_ever_ends_the_run():
    assert fate(SILENT, jobs("COMPLETING")) is RunFate.GONE
    assert fate(BUSY, jobs("COMPLETING")) is RunFate.LIVES


def test_the_second_of_two_jobs_does_not_end_the_first():
    assert fate(BUSY, jobs("COMPLETED", "RUNNING")) is RunFate.LIVES
    assert fate(SILENT, jobs("COMPLETED", "RUNNING")) is RunFate.LIVES


def test_the_record_of_a_run_whose_job_is_over_comes_within_seconds():
    for state in ("COMPLETED", "FAILED", "NODE_FAIL", "TIMEOUT"):
        assert fate(BUSY, jobs(state)) is RunFate.LIVES
        assert fate(QUIET, jobs(state)) is RunFate.GONE


@pytest.mark.parametrize("signs", [NEW, FORGOTTEN])
def test_a_job_that_ended_before_its_run_was_claimed_never_begins_it(signs: RunSigns):
    assert fate(signs, jobs("CANCELLED")) is RunFate.GONE
