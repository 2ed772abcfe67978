"""Runs that a real Slurm carries out, as their user sees them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from runner.execution import places, slurm_programs
from runner.execution.slurm import SlurmPlace
from runner.store import run_files
from runner.store.paths import RunPaths
from tests.kit.cluster import Cluster
from tests.kit.program import RAI, rai
from tests.kit.slurm_site import ended, left, project
from tests.kit.waiting import until

pytestmark = [pytest.mark.slurm, pytest.mark.programs]


def test_a_run_on_slurm_shows_its_output_and_ends_with_its_status(
    cluster_home, tmp_path
):
    folder = project(tmp_path, "echo out; echo err >&2; echo made > $RAI_BUILD_DIR/x")
    done = rai("run", "--on", "slurm", "-p", folder, "-o", str(tmp_path / "o"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "out\n"
    assert "err\n" in done.stderr
    assert "Running on Slurm" in done.stderr
    assert (tmp_path / "o" / "x").read_text() == "made\n"
    failed = rai("run", "--on", "slurm", "-p", project(tmp_path, "exit 3"))
    assert failed.returncode == 1


def test_a_run_is_on_a_node_of_the_cluster_under_its_own_name(cluster_home, tmp_path):
    folder = project(tmp_path, "echo $SLURM_JOB_NAME on $SLURMD_NODENAME")
    run = left("-p", folder)
    assert rai("wait", run).returncode == 0
    said = rai("logs", run).stdout
    assert said in {f"rai-{run} on n1\n", f"rai-{run} on n2\n"}


def test_a_partition_that_is_not_there_is_refused_and_leaves_nothing(
    cluster_home, tmp_path
):
    done = rai("run", "--on", "slurm:nowhere", "-p", project(tmp_path, "true"))
    assert done.returncode not in (0, 10)
    assert "nowhere" in done.stderr
    assert list(cluster_home.runs.glob("[0-9a-f]*")) == []


def test_a_job_that_waits_says_why_and_is_cancelled_at_once(
    cluster_home, tmp_path, full
):
    run = left("-p", project(tmp_path, "echo never"))
    listed = json.loads(rai("ps", "--json").stdout)
    assert [one["on"] for one in listed] == ["slurm"]
    assert "waiting" in rai("show", run).stdout
    done = rai("cancel", run)
    assert done.returncode == 0, done.stderr
    assert ended(cluster_home.run(run)).state == "cancelled"
    assert full.ask("squeue", "-h", "-t", "PENDING") == ""


def test_a_job_whose_client_was_killed_before_it_knew_the_number_is_cancelled(
    cluster_home, tmp_path, full
):
    run = left("-p", project(tmp_path, "echo never"))
    paths = cluster_home.run(run)
    there = run_files.read_submission(paths)
    assert there is not None
    run_files.write_submission(paths, replace(there, number=""))
    done = rai("cancel", run)
    assert done.returncode == 0, done.stderr
    assert ended(paths).state == "cancelled"
    assert full.ask("squeue", "-h", "-t", "PENDING") == ""


def test_a_run_that_asks_for_more_cores_than_there_are_ends(cluster_home, tmp_path):
    run = left("-p", project(tmp_path, "true", cpu={"cores": 65_537}))
    assert rai("wait", run).returncode == 9
    assert "never start" in rai("show", run).stdout
    folder = project(tmp_path, "true", cpu={"cores": (1 << 32) + 1})
    refused = rai("run", "--on", "slurm", "-p", folder)
    assert refused.returncode == 9
    assert "4,294,967,297 cores" in refused.stderr


@pytest.mark.parametrize(
    ("after", "status"),
    [
        ("exit 1", 9),
        ("echo thank you", 9),
        ("echo sbatch: error: Socket timed out on send/recv >&2; exit 1", 8),
    ],
)
def test_a_job_that_slurm_takes_without_saying_so_does_not_stay(
    cluster_home, tmp_path, full, monkeypatch, after, status
):
    (tmp_path / "bin").mkdir()
    wrapper = tmp_path / "bin" / "sbatch"
    real = shutil.which("sbatch")
    wrapper.write_text(f'#!/bin/sh\n{real} "$@" > {tmp_path}/number\n{after}\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", str(wrapper.parent), prepend=os.pathsep)
    done = rai("run", "--on", "slurm", "-p", project(tmp_path, "echo never"))
    assert done.returncode == status
    assert (tmp_path / "number").read_text().strip().isdecimal()
    assert full.ask("squeue", "-h", "-t", "PENDING") == ""
    assert list(cluster_home.runs.glob("[0-9a-f]*")) == []


def test_ctrl_c_does_not_wait_for_an_sbatch_that_hangs(
    cluster_home, tmp_path, monkeypatch
):
    sbatch = tmp_path / "bin" / "sbatch"
    sbatch.parent.mkdir()
    sbatch.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\nexec sleep 300\n")
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", str(sbatch.parent), prepend=os.pathsep)
    words = ["run", "--on", "slurm", "-p", project(tmp_path, "true")]
    with subprocess.Popen([RAI, *words], stderr=subprocess.PIPE) as client:
        until((tmp_path / "asked").exists)
        client.send_signal(signal.SIGINT)
        _, said = client.communicate(timeout=slurm_programs.ANSWERS_WITHIN_S / 2)
    assert client.returncode == 130
    assert b"stopped before the run was submitted" in said
    assert list(cluster_home.runs.glob("[0-9a-f]*")) == []


def test_runs_are_listed_where_slurms_programs_are_not(
    cluster_home, tmp_path, full, monkeypatch
):
    folder = project(tmp_path, "true")
    run = left("-p", folder)
    with monkeypatch.context() as other:
        other.setenv("PATH", str(Path(sys.executable).parent))
        slurm_programs.forget(cluster_home)
        listed = rai("runs")
        refused = rai("run", "--on", "slurm", "-p", folder)
    assert listed.returncode == 0
    assert "Slurm's programs are not on this machine" in listed.stderr
    assert refused.returncode == 11
    assert "run it on a login node" in refused.stderr
    assert rai("cancel", run).returncode == 0


def test_a_run_that_goes_on_is_cancelled_and_keeps_what_it_wrote(
    cluster_home, tmp_path
):
    run = left("-p", project(tmp_path, "echo begun; touch $RAI_BUILD_DIR/x; sleep 300"))
    until(cluster_home.run(run).stdout.exists)
    done = rai("cancel", run)
    assert done.returncode == 0, done.stderr
    found = ended(cluster_home.run(run))
    assert found.state == "cancelled"
    assert cluster_home.run(run).build.exists()
    assert rai("logs", run).stdout == "begun\n"


def test_no_secret_stays_in_the_folder(cluster_home, tmp_path):
    folder = project(tmp_path, "echo $TOKEN | wc -c")
    run = left("-p", folder, "-e", "TOKEN=open-sesame-12345")
    assert rai("wait", run).returncode == 0
    assert rai("logs", run).stdout == "18\n"
    for file in cluster_home.run(run).root.iterdir():
        assert b"open-sesame" not in file.read_bytes(), file


def test_a_secret_that_waits_is_for_the_user_only_and_goes_with_the_run(
    cluster_home, tmp_path, full
):
    run = left("-p", project(tmp_path, "true"), "-e", "TOKEN=open-sesame-12345")
    paths = cluster_home.run(run)
    assert b"open-sesame" in paths.order.read_bytes()
    assert stat.S_IMODE(paths.order.stat().st_mode) == 0o600
    assert stat.S_IMODE(paths.root.stat().st_mode) == 0o700
    assert rai("cancel", run).returncode == 0
    assert ended(paths).state == "cancelled"
    assert not paths.order.exists()


def test_no_secret_stays_where_a_process_is_killed_as_it_records_a_lost_run(
    cluster_home, tmp_path, full, monkeypatch
):
    paths = cluster_home.run(
        left("-p", project(tmp_path, "true"), "-e", "TOKEN=open-sesame")
    )
    assert b"open-sesame" in paths.order.read_bytes()
    full.ask("scancel", f"--name=rai-{paths.id}")

    def killed(place: SlurmPlace, of: RunPaths) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SlurmPlace, "forget", killed)
    with pytest.raises(KeyboardInterrupt):
        places.wait(paths, 60.0)
    assert paths.record.exists()
    assert not paths.order.exists()


def test_a_run_that_its_node_refuses_ends_with_the_reason(
    cluster_home, tmp_path, monkeypatch
):
    folder = project(tmp_path, "cat /src/x")
    run = left("-p", folder)
    done = rai("wait", run)
    assert done.returncode == 2
    assert "/src" in rai("show", run).stdout


def test_a_second_worker_of_a_run_does_nothing(cluster_home, tmp_path, slurm):
    wait = f"until [ -e {tmp_path}/go ]; do sleep 0.02; done"
    run = left("-p", project(tmp_path, f"echo ran >> {tmp_path}/ran; {wait}"))
    until((tmp_path / "ran").exists)
    again = slurm.submit(
        f"exec {sys.executable} -m runner.execution.node {cluster_home.run(run).root}"
    )
    slurm.until(lambda: slurm.state(again) == "RUNNING")
    (tmp_path / "go").touch()
    assert rai("wait", run).returncode == 0
    slurm.until(lambda: slurm.state(again) == "COMPLETED")
    assert (tmp_path / "ran").read_text() == "ran\n"


def test_what_a_worker_that_cannot_start_printed_is_told(
    cluster_home, tmp_path, monkeypatch
):
    text = """
import os
if "SLURMD_NODENAME" in os.environ:
    os.write(2, b"no module named rai\\n")
    os._exit(1)
"""
    (tmp_path / "sitecustomize.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    run = left("-p", project(tmp_path, "true"))
    done = rai("wait", run)
    assert done.returncode == 10
    assert "no module named rai" in done.stderr


def asked(folder: str, slurm: Cluster, *words: str) -> list[str]:
    """Return what the job of a run asks for: GPUs, memory, time, cores, and whether
    others may share its node.
    """
    run = left("-p", folder, *words)
    said = slurm.ask("squeue", "-h", "-o", "%b %m %l %C %h").split()
    assert rai("cancel", run).returncode == 0
    return said


def test_a_run_asks_for_its_limits_and_what_rai_needs(cluster_home, tmp_path, full):
    folder = project(tmp_path, "true", gpu={"count": 1}, cpu={"cores": 2})
    assert asked(folder, full) == ["gres:gpu:1", "1G", "11:00", "2", "OK"]


def test_a_job_has_none_of_the_clients_secrets_and_starts_no_login_shell(
    cluster_home, tmp_path, monkeypatch
):
    monkeypatch.setenv("RAI_TOKEN", "rai_secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    profile = tmp_path / ".bash_profile"
    profile.write_text(f"touch {tmp_path}/login\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    done = rai(
        "run", "--on", "slurm", "-p", project(tmp_path, "cat /proc/$PPID/environ")
    )
    assert done.returncode == 0, done.stderr
    assert "SLURM_JOB_ID=" in done.stdout
    assert "secret" not in done.stdout
    assert not (tmp_path / "login").exists()
