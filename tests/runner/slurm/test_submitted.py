"""What sbatch's answers mean."""

from __future__ import annotations

import pytest

from runner.core import Reason
from runner.core.needs import JobNeeds
from runner.slurm.options import SlurmOptions
from runner.slurm.submitted import failure, number
from runner.slurm.target import SlurmTarget

OPTIONS = SlurmOptions(account="course", qos="short", constraint="a100")
GPU = SlurmTarget("gpu")
NEEDS = JobNeeds(memory_bytes=8704 << 20, time_s=60.0)
FAILED = "sbatch: error: Batch job submission failed: "


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("123\n", "123"),
        ("123;cluster\n", "123"),
        ("Welcome to the cluster\n4711\n\n", "4711"),
        ("Submitted batch job 5\n", None),
        ("", None),
        ("1" * 5000, None),
    ],
)
def test_the_number_of_a_job_is_the_last_line(answer: str, found: str | None):
    assert number(answer) == found


@pytest.mark.parametrize(
    ("said", "reason", "words"),
    [
        ("Invalid partition name specified", Reason.USAGE, "no partition gpu"),
        (
            "Invalid account or account/partition combination specified",
            Reason.BAD_CONFIG,
            "the account course for partition gpu",
        ),
        ("Invalid qos specification", Reason.BAD_CONFIG, "the qos short"),
        ("Invalid feature specification", Reason.BAD_CONFIG, "the features a100"),
        (
            "Invalid generic resource (gres) specification",
            Reason.NO_GPU,
            "does not know the GPUs",
        ),
        (
            "Requested node configuration is not available",
            Reason.NOT_ALLOWED,
            "no node of partition gpu has all",
        ),
        (
            "Memory specification can not be satisfied",
            Reason.NOT_ALLOWED,
            "no node of partition gpu has the 8704MiB of memory",
        ),
        (
            "CPU count per node can not be satisfied",
            Reason.NOT_ALLOWED,
            "the cores that the run asks for",
        ),
        ("More processors requested than permitted", Reason.NOT_ALLOWED, "cores"),
        (
            "Requested time limit is invalid (missing or exceeds some limit)",
            Reason.NOT_ALLOWED,
            "may take longer than jobs of partition gpu",
        ),
        ("Requested reservation is invalid", Reason.BAD_CONFIG, "reservation"),
        ("Invalid node name specified", Reason.BAD_CONFIG, "no such node"),
        (
            "User's group not permitted to use this partition",
            Reason.NOT_ALLOWED,
            "may not use partition gpu",
        ),
        (
            "Required partition not available (inactive or drain)",
            Reason.BUSY,
            "partition gpu takes no jobs now",
        ),
        ("Access/permission denied", Reason.NOT_ALLOWED, "jobs of this user"),
        (
            "Unable to contact slurm controller (connect failure)",
            Reason.BUSY,
            "cannot be reached",
        ),
        ("Something of version 99", Reason.NOT_ALLOWED, "Something of version 99"),
    ],
)
def test_each_refusal_is_told_in_words(said: str, reason: Reason, words: str):
    error = failure(f"{FAILED}{said}\n", GPU, OPTIONS, NEEDS)
    assert error.reason is reason
    assert words in str(error)
    assert "sbatch:" not in str(error)
    assert not error.uncertain


POLICY = (
    "Job violates accounting/QOS policy (job submit limit, user's size and/or time"
    " limits)"
)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("QOSMaxSubmitJobPerUserLimit", Reason.BUSY),
        ("AssocMaxSubmitJobLimit", Reason.BUSY),
        ("AssocGrpSubmitJobsLimit", Reason.BUSY),
        ("QOSMaxWallDurationPerJobLimit", Reason.NOT_ALLOWED),
        ("AssocMaxMemPerNode", Reason.NOT_ALLOWED),
    ],
)
def test_a_limit_of_the_account_is_busy_only_if_it_is_one_of_jobs(
    name: str, reason: Reason
):
    error = failure(f"sbatch: error: {name}\n{FAILED}{POLICY}\n", GPU, OPTIONS, NEEDS)
    assert error.reason is reason
    assert (name in str(error)) is (reason is Reason.NOT_ALLOWED)


def test_without_an_answer_the_job_may_be_there_after_all():
    said = "Socket timed out on send/recv operation"
    assert failure(FAILED + said, GPU, OPTIONS, NEEDS).uncertain


def test_an_unknown_text_is_bounded_and_escaped():
    text = str(
        failure("sbatch: error: \x1b[31m✱ " + "x" * 100_000, GPU, OPTIONS, NEEDS)
    )
    assert len(text) < 3000
    assert "\x1b" not in text
    assert "✱" not in text


def test_without_a_setting_the_default_is_named():
    error = failure(
        f"{FAILED}Invalid qos specification", SlurmTarget(), SlurmOptions(), NEEDS
    )
    assert "your default qos for the default partition" in str(error)
