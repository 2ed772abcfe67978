"""The Slurm that tests start, and what they take away from it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.runner.slurm.cluster import Cluster

pytestmark = pytest.mark.slurm


def test_two_jobs_run_at_once_each_with_a_gpu_of_its_own(
    slurm: Cluster, tmp_path: Path
):
    script = (
        f'echo "$SLURMD_NODENAME $SLURM_JOB_GPUS" > {tmp_path}/$SLURM_JOB_ID; sleep 60'
    )
    jobs = [slurm.submit(script, "--gres=gpu:1") for _ in range(2)]
    slurm.until(lambda: len(list(tmp_path.glob("*"))) == 2)
    slurm.until(lambda: all((tmp_path / f"{job}").read_text() for job in jobs))
    assert {(tmp_path / f"{job}").read_text() for job in jobs} == {"n1 0\n", "n2 0\n"}


def test_a_daemon_that_ended_finds_its_jobs_again(slurm: Cluster, tmp_path: Path):
    job = slurm.submit(f"while ! test -e {tmp_path}/go; do sleep 0.1; done; exit 3")
    slurm.until(lambda: slurm.state(job) == "RUNNING")
    slurm.kill("slurmctld", with_=signal.SIGTERM)  # by SIGKILL it may forget the job
    slurm.start("slurmctld")
    slurm.kill("slurmd", "n1")
    slurm.start("slurmd", "n1")
    slurm.until(lambda: slurm.state(job) == "RUNNING")
    (tmp_path / "go").touch()
    slurm.until(lambda: slurm.state(job) == "FAILED")


def test_a_node_without_power_leaves_no_process_and_comes_back(
    slurm: Cluster, tmp_path: Path
):
    job = slurm.submit(f"touch {tmp_path}/begun; sleep 1000", "--nodelist=n1")
    slurm.until((tmp_path / "begun").exists)
    assert slurm.processes("n1")
    slurm.power_off("n1")
    assert not slurm.processes("n1")
    slurm.down("n1", "no power")
    slurm.until(lambda: slurm.state(job) != "RUNNING")
    slurm.tidy()
    assert slurm.node_states() == {"n1": "idle", "n2": "idle"}


def test_a_drained_node_takes_no_job(slurm: Cluster):
    slurm.drain("n1", "a broken fan")
    job = slurm.submit("sleep 60", "--exclusive")
    slurm.until(lambda: slurm.state(job) == "RUNNING")
    assert slurm.node_states() == {"n1": "drain", "n2": "alloc"}
