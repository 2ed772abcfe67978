"""What sbatch is given for a run."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from runner.core import GIB
from runner.core.errors import NotAllowedError
from runner.core.needs import JobNeeds
from runner.slurm.asking import Submission, environment, span, submission
from runner.slurm.options import SlurmOptions
from runner.slurm.target import SlurmTarget

NEEDS = JobNeeds(memory_bytes=8 * GIB, time_s=3600.0)
NO_OPTIONS = SlurmOptions()
DEFAULT = SlurmTarget()


def asked(
    needs: JobNeeds = NEEDS,
    options: SlurmOptions = NO_OPTIONS,
    target: SlurmTarget = DEFAULT,
    folder: str = "/home/ada/rai/runs/abc",
    **more: object,
) -> Submission:
    return submission(
        needs,
        options,
        target,
        run_id="abc",
        folder=folder,
        **{"worker": ("/opt/rai/bin/python", "-m", "runner.worker.node", folder)}
        | more,  # type: ignore[arg-type]
    )


def test_a_run_asks_for_memory_time_and_one_node():
    assert asked().argv == (
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
        "--time=0-01:00:00",
    )


def test_settings_and_the_target_name_what_they_have():
    options = SlurmOptions("course", "short", "a100|h100", ("--nice=5",), cores=4)
    words = asked(options=options, target=SlurmTarget("gpu")).argv
    assert {
        "--account=course",
        "--qos=short",
        "--constraint=a100|h100",
        "--partition=gpu",
        "--cpus-per-task=4",
    } <= set(words)
    assert words[-1] == "--nice=5"


def test_the_build_files_cores_count_before_the_settings():
    words = asked(replace(NEEDS, cores=2), SlurmOptions(cores=8)).argv
    assert "--cpus-per-task=2" in words
    assert "--cpus-per-task=8" not in words


@pytest.mark.parametrize(
    ("needs", "word"),
    [
        (replace(NEEDS, gpus=2), "--gres=gpu:2"),
        (replace(NEEDS, gpus=1, gpu_model="h100"), "--gres=gpu:h100:1"),
        (replace(NEEDS, memory_bytes=(1 << 20) + 1), "--mem=2M"),
        (replace(NEEDS, alone=True), "--exclusive"),
    ],
)
def test_each_need_has_its_option(needs: JobNeeds, word: str):
    assert word in asked(needs).argv
    assert word not in asked().argv


@pytest.mark.parametrize(
    ("time_s", "text"),
    [
        (0.0, "0-00:01:00"),
        (60.0, "0-00:01:00"),
        (60.1, "0-00:02:00"),
        (86_399.0, "1-00:00:00"),
        (100 * 86_400.0, "100-00:00:00"),
    ],
)
def test_a_time_is_whole_minutes_rounded_up(time_s: float, text: str):
    assert span(time_s) == text


def test_nodes_left_out_here_and_by_the_user_are_left_out_together():
    options = SlurmOptions(extra=("--exclude=n3", "--exclude=n1,n2", "--nice=1"))
    words = asked(options=options).argv
    assert [w for w in words if w.startswith("--exclude=")] == ["--exclude=n3,n1,n2"]


def test_a_percent_sign_is_not_expanded_by_sbatch():
    assert "--output=/a%%j/worker.log" in asked(folder="/a%j").argv


@pytest.mark.parametrize("folder", ["/a\nb", "/a\\b", "/a\tb", "/a\x7fb"])
def test_a_folder_that_sbatch_reads_otherwise_is_refused(folder: str):
    with pytest.raises(NotAllowedError, match="RAI_HOME"):
        asked(folder=folder)


def test_the_script_starts_the_worker_in_the_shells_place(tmp_path: Path):
    odd = tmp_path / 'it\'s $HOME; "x" `y` %j'
    made = asked(options=SlurmOptions(python="/bin/echo"), folder=str(odd))
    done = subprocess.run(
        ["/bin/sh"], input=made.script, capture_output=True, check=True
    )
    assert done.stdout.decode() == f"-m runner.worker.node {odd}\n"
    assert made.script.decode().splitlines()[-1].startswith("exec /bin/echo ")


def test_the_script_is_started_by_the_python_of_this_rai_unless_another_is_named():
    words = shlex.split(asked().script.decode().splitlines()[-1])
    assert words[:3] == ["exec", "/opt/rai/bin/python", "-m"]
    assert sys.executable not in words


def test_sbatch_and_the_job_have_no_secrets_of_the_client():
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
    }
    assert environment(given) == {
        name: given[name]
        for name in ("PATH", "HOME", "SLURM_CONF", "SBATCH_ACCOUNT", "PYTHONPATH")
    }


@pytest.mark.parametrize("time_s", [2.0**31 * 60, 2.0**32 * 60 + 300, 1e30])
def test_a_time_beyond_slurms_numbers_is_a_long_time(time_s: float):
    assert span(time_s) == "36500-00:00:00"
