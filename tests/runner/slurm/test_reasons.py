"""Why jobs wait and how they ended, in words."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core.ending import Reason
from runner.slurm import reasons
from tests.runner.slurm.test_jobs import OVER

DATA = Path(__file__).parents[2] / "data" / "squeue"
CODES = (DATA / "reasons.txt").read_text().split()
"""Every reason that Slurm 20.11 to 26.05 have a code for."""

SENTENCES = (
    "ReqNodeNotAvail, UnavailableNodes:n[1-3]",
    "ReqNodeNotAvail, May be reserved for other job",
    "ReqNodeNotAvail, Reserved for maintenance",
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority"
    " partitions",
    "Nodes required for job are DOWN, DRAINED, REBOOTING or reserved for",
    "uid 1000 not in group permitted to use this partition (gpu). groups allowed: ta",
    "Job's QOS not permitted to use this partition (gpu allows long not normal)",
    "Reservation course was deleted",
    "Reservation course is invalid",
    "launch failed requeued held",
    "launch failure limit exceeded requeued held",
    "user env retrieval failed requeued held",
    "job requeued in held state",
    "RaisedSignal:9(Killed)",
)
"""What Slurm writes in place of some codes."""


@pytest.mark.parametrize("reason", [*CODES, *SENTENCES])
def test_every_reason_of_slurm_has_words(reason: str) -> None:
    words = reasons.why_waits(reason)

    assert not words.startswith("Slurm says")
    assert reason not in words
    assert words.isprintable()
    assert 10 < len(words) <= 120


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Resources", "no node has enough free CPUs, memory or GPUs"),
        ("", "Slurm has not considered it yet"),
        ("(null)", "Slurm has not considered it yet"),
        (
            "ReqNodeNotAvail, UnavailableNodes:n[1-3]",
            "nodes are down, drained or kept for others: n[1-3]",
        ),
        (
            "ReqNodeNotAvail, Reserved for maintenance",
            "its nodes are reserved for maintenance",
        ),
        (
            "QOSMaxGRESPerUser",
            "with it, your running jobs would use more GPUs (GRES) than the QOS allows:"
            " others have to end first",
        ),
        (
            "MaxCpuRunMinsPerAccount",
            "with it, your account's running jobs would use more CPU minutes than the"
            " QOS allows: others have to end first",
        ),
        (
            "AssocGrpCPUMinutesLimit",
            "too few CPU minutes of your account are left: ask for less time, or ask"
            " the administrators",
        ),
        (
            "AssocGrpMemLimit",
            "with it, the jobs of your account would use more memory than they may:"
            " others have to end first",
        ),
        (
            "QOSMaxWallDurationPerJobLimit",
            "it asks for more time than the QOS allows a job:"
            " lower resources.limits.time",
        ),
        (
            "AssocMaxJobsLimit",
            "you have as many jobs running as your account allows:"
            " one has to end first",
        ),
        (
            "QOSGrpSubmitJobsLimit",
            "the QOS has as many jobs running or waiting as it may:"
            " one has to end first",
        ),
        (
            "QOSMinMemory",
            "it asks for less memory than the QOS demands: ask for more",
        ),
        ("Foo", 'Slurm says "Foo"'),
    ],
)
def test_reasons_say_what_holds_a_job_and_what_to_do(reason: str, words: str) -> None:
    assert reasons.why_waits(reason) == words


@given(st.text(max_size=2000))
def test_words_of_any_reason_are_one_short_line_without_controls(reason: str) -> None:
    for words in (
        reasons.why_waits(reason),
        reasons.how_ended("FAILED", reason).words,
        reasons.how_ended(reason, "").words,
    ):
        assert "\n" not in words
        assert "\x1b" not in words
        assert len(words) < 1500


def test_an_unknown_reason_is_quoted_in_part_and_escaped() -> None:
    words = reasons.why_waits("red \x1b[31m\n" + 5000 * "x")

    assert words.startswith('Slurm says "red \\x1b[31m xxx')
    assert words.endswith('x..."')
    assert len(words) < 160


NEVER = (
    "AccountNotAllowed",
    "AssocMaxCpuMinutesPerJobLimit",
    "AssocMaxGRESPerNode",
    "AssocMaxWallDurationPerJobLimit",
    "BadConstraints",
    "DependencyNeverSatisfied",
    "Job's QOS not permitted to use this partition (gpu allows long not normal)",
    "MaxMemPerLimit",
    "PartitionTimeLimit",
    "QOSMaxGRESPerJob",
    "QOSMaxNodePerJobLimit",
    "QOSMaxWallDurationPerJobLimit",
    "QOSMinGRES",
    "QOSNotAllowed",
    "Reservation course was deleted",
)


@pytest.mark.parametrize("reason", NEVER)
def test_a_job_that_asks_for_what_it_never_gets_never_starts(reason: str) -> None:
    assert reasons.never_starts(reason)


@pytest.mark.parametrize(
    "reason",
    [
        "",
        "AssocGrpCPUMinutesLimit",
        "AssocMaxJobsLimit",
        "BeginTime",
        "Constraints",
        "JobHeldAdmin",
        "JobHeldUser",
        "MaxGRESPerAccount",
        "PartitionDown",
        "PartitionNodeLimit",
        "Priority",
        "QOSGrpGRES",
        "QOSMaxGRESPerUser",
        "QOSMaxSubmitJobPerUserLimit",
        "ReqNodeNotAvail, UnavailableNodes:n1",
        "Resources",
        "SomeNewReasonPerJob",
    ],
)
def test_what_others_may_end_is_waited_for(reason: str) -> None:
    assert not reasons.never_starts(reason)


@pytest.mark.parametrize(
    ("state", "reason", "ended", "words"),
    [
        (
            "TIMEOUT",
            "TimeLimit",
            Reason.TIME_LIMIT,
            "Slurm ended the job at its time limit",
        ),
        (
            "TIMEOUT",
            "Job is at or exceeds QOS normal's group wall limit of 60 with 61",
            Reason.TIME_LIMIT,
            "Slurm ended the job when your account or its QOS had no time left",
        ),
        (
            "TIMEOUT",
            "Reservation course, which this job was running under, has ended",
            Reason.TIME_LIMIT,
            "Slurm ended the job when its reservation ended",
        ),
        (
            "DEADLINE",
            "DeadLine",
            Reason.TIME_LIMIT,
            "Slurm ended the job at its deadline",
        ),
        (
            "OUT_OF_MEMORY",
            "OutOfMemory",
            Reason.MEMORY_LIMIT,
            "the job used more memory than it had asked for",
        ),
        (  # the reason is that of its wait
            "CANCELLED",
            "PartitionTimeLimit",
            Reason.CANCELLED,
            "the job was cancelled in Slurm",
        ),
        (
            "FAILED",
            "BadConstraints",
            Reason.NOT_ALLOWED,
            "it never started: no node of its partition has what it asks for:"
            " ask for less, or name another partition",
        ),
        (
            "FAILED",
            "NonZeroExitCode",
            Reason.RUNNER_LOST,
            "the job failed: rai's worker ended with an error",
        ),
        (
            "FAILED",
            "RaisedSignal:9(Killed)",
            Reason.RUNNER_LOST,
            "the job failed: signal 9 (Killed) ended rai's worker",
        ),
        ("FAILED", "", Reason.RUNNER_LOST, "the job failed"),
        ("NODE_FAIL", "NodeDown", Reason.RUNNER_LOST, "the job's node failed"),
        (
            "PREEMPTED",
            "",
            Reason.RUNNER_LOST,
            "Slurm gave the job's node to a job of higher priority",
        ),
        (
            "COMPLETED",
            "",
            Reason.RUNNER_LOST,
            "the job ended, but the run left no record",
        ),
        ("NEW_END", "", Reason.RUNNER_LOST, 'Slurm ended the job as "NEW_END"'),
    ],
)
def test_an_end_without_a_record_has_a_reason_and_words(
    state: str, reason: str, ended: Reason, words: str
) -> None:
    assert reasons.how_ended(state, reason) == reasons.JobEnd(ended, words)


@pytest.mark.parametrize("state", OVER)
@pytest.mark.parametrize("reason", ["", "None", "NonZeroExitCode", *NEVER])
def test_no_end_without_a_record_is_a_success(state: str, reason: str) -> None:
    end = reasons.how_ended(state, reason)

    assert end.reason.exit_code != 0
    assert "Slurm ended the job as" not in end.words
