"""What sbatch is given for a run, and what its answers mean."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from runner.core import GIB, Reason
from runner.core.addresses import SlurmTarget
from runner.core.errors import NotAllowedError
from runner.execution.slurm_programs import (
    JobNeeds,
    UncertainError,
    environment,
    failure,
    minutes,
    number,
    submission,
)

NEEDS = JobNeeds(memory_bytes=8 * GIB, time_s=3600.0)
DEFAULT = SlurmTarget()


def asked(
    needs: JobNeeds = NEEDS,
    extra: Sequence[str] = (),
    target: SlurmTarget = DEFAULT,
    folder: str = "/home/ada/rai/runs/abc",
    **more: object,
) -> tuple[list[str], bytes]:
    return submission(
        needs,
        extra,
        target,
        folder=folder,
        **{"worker": ("/opt/rai/bin/python", "-m", "runner.execution.node", folder)}
        | more,  # type: ignore[arg-type]
    )


def test_a_run_asks_for_memory_time_and_one_node():
    assert asked()[0] == [
        "sbatch",
        "--parsable",
        "--no-requeue",
        "--job-name=rai-abc",
        "--output=/home/ada/rai/runs/abc/worker.log",
        "--chdir=/",
        "--open-mode=append",
        "--export=ALL",
        "--nodes=1",
        "--ntasks=1",
        "--mem=8192M",
        "--time=60",
    ]


def test_the_users_words_and_the_partition_are_asked_for():
    words = asked(extra=("--account=course",), target=SlurmTarget("gpu"))[0]
    assert {"--account=course", "--partition=gpu"} <= set(words)


def test_the_build_files_cores_count_before_the_settings():
    words = asked(replace(NEEDS, cores=2), ("--cpus-per-task=8",))[0]
    cores = [word for word in words if word.startswith("--cpus-per-task=")]
    assert cores[-1] == "--cpus-per-task=2"  # sbatch heeds the last
    assert "--cpus-per-task=8" in asked(extra=("--cpus-per-task=8",))[0]


@pytest.mark.parametrize(
    ("needs", "word"),
    [
        (replace(NEEDS, gpus=2), "--gres=gpu:2"),
        (replace(NEEDS, memory_bytes=(1 << 20) + 1), "--mem=2M"),
        (replace(NEEDS, alone=True), "--exclusive"),
    ],
)
def test_each_need_has_its_option(needs, word):
    assert word in asked(needs)[0]
    assert word not in asked()[0]


@pytest.mark.parametrize(
    ("time_s", "found"),
    [
        *((0.0, 1), (60.0, 1), (60.1, 2), (86_399.0, 1440), (100 * 86_400.0, 144_000)),
        # What is beyond Slurm's numbers is a long time.
        *((2.0**31 * 60, 52_560_000), (2.0**32 * 60 + 300, 52_560_000)),
        (1e30, 52_560_000),
    ],
)
def test_a_time_is_whole_minutes_rounded_up(time_s, found):
    assert minutes(time_s) == found


def test_all_nodes_that_are_left_out_are_in_one_option():
    words = asked(extra=("--exclude=n3", "--nice=1", "--exclude=n1,n2"))[0]
    excluded = [w for w in words if w.startswith("--exclude=")]
    assert excluded[-1] == "--exclude=n3,n1,n2"  # sbatch heeds the last


def test_a_percent_sign_is_not_expanded_by_sbatch():
    assert "--output=/a%%j/worker.log" in asked(folder="/a%j")[0]


@pytest.mark.parametrize("folder", ["/a\nb", "/a\\b", "/a\tb", "/a\x7fb"])
def test_a_folder_that_sbatch_reads_otherwise_is_refused(folder):
    with pytest.raises(NotAllowedError, match="RAI_HOME"):
        asked(folder=folder)


def test_the_script_starts_the_worker_in_the_shells_place(tmp_path):
    odd = str(tmp_path / 'it\'s $HOME; "x" `y` %j')
    _, script = asked(
        folder=odd, worker=("/bin/echo", "-m", "runner.execution.node", odd)
    )
    done = subprocess.run(["/bin/sh"], input=script, capture_output=True, check=True)
    assert done.stdout.decode() == f"-m runner.execution.node {odd}\n"
    assert script.decode().splitlines()[-1].startswith("exec /bin/echo ")


def test_slurms_programs_and_a_job_have_no_secrets_of_the_client_and_times_in_utc():
    given = {
        "PATH": "/bin",
        "HOME": "/home/ada",
        "SLURM_CONF": "/etc/slurm.conf",
        "SBATCH_ACCOUNT": "course",
        "PYTHONPATH": "/src",
        "RAI_TOKEN": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "SLURM_JOB_ID": "7",
        "CUDA_VISIBLE_DEVICES": "3",
        "TMPDIR": "/tmp/login",
        "TZ": "Asia/Tokyo",
        "SLURM_TIME_FORMAT": "relative",
        "SQUEUE_USERS": "me",
        "SLURM_CLUSTERS": "all",
    }
    times = {"TZ": "UTC", "SLURM_TIME_FORMAT": "standard", "LC_ALL": "C"}
    assert environment(given) == times | {
        name: given[name]
        for name in ("PATH", "HOME", "SLURM_CONF", "SBATCH_ACCOUNT", "PYTHONPATH")
    }


FAILED = "sbatch: error: Batch job submission failed: "


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        *(("123\n", "123"), ("123;cluster\n", "123"), ("", None), ("1" * 5000, None)),
        *(("Welcome to the cluster\n4711\n\n", "4711"), ("Submitted job 5\n", None)),
    ],
)
def test_the_number_of_a_job_is_the_last_line(answer, found):
    assert number(answer) == found


SAID = {
    Reason.USAGE: ("Invalid partition name specified",),
    Reason.BAD_CONFIG: (
        "Invalid account or account/partition combination specified",
        *("Invalid qos specification", "Invalid feature specification"),
        *("Requested reservation is invalid", "Invalid node name specified"),
    ),
    Reason.NO_GPU: ("Invalid generic resource (gres) specification",),
    Reason.NOT_ALLOWED: (
        "Requested node configuration is not available",
        "Memory specification can not be satisfied",
        "CPU count per node can not be satisfied",
        "More processors requested than permitted",
        "Requested time limit is invalid (missing or exceeds some limit)",
        "User's group not permitted to use this partition",
        *("Access/permission denied", "Something of version 99"),
    ),
    Reason.BUSY: (
        "Required partition not available (inactive or drain)",
        "Unable to contact slurm controller (connect failure)",
    ),
}


@pytest.mark.parametrize(
    ("said", "reason"), [(one, reason) for reason in SAID for one in SAID[reason]]
)
def test_a_refusal_is_slurms_own_line_with_a_reason(said, reason):
    error = failure(f"{FAILED}{said}\n")
    assert error.reason is reason
    assert f"Slurm did not take the run: {said}" in str(error)
    assert not isinstance(error, UncertainError)


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
def test_a_limit_of_the_account_is_busy_only_if_it_is_one_of_jobs(name, reason):
    error = failure(f"sbatch: error: {name}\n{FAILED}{POLICY}\n")
    assert error.reason is reason
    assert name in str(error)


def test_without_an_answer_the_job_may_be_there_after_all():
    said = "Socket timed out on send/recv operation"
    assert isinstance(failure(FAILED + said), UncertainError)


def test_an_unknown_text_is_bounded_and_escaped():
    text = str(failure("sbatch: error: \x1b[31m✱ " + "x" * 100_000))
    assert len(text) < 3000
    assert "\x1b" not in text
    assert "✱" not in text
