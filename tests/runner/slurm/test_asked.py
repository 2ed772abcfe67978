"""What a real Slurm is asked for, and what a job has of its client."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.store.paths import Home
from tests.program import rai
from tests.runner.slurm.cluster import Cluster
from tests.runner.slurm.site import left, project

pytestmark = [pytest.mark.slurm, pytest.mark.programs]


def asked(folder: str, slurm: Cluster, *words: str) -> list[str]:
    """Return what the job of a run asks for: GPUs, memory, time, cores, and whether
    others may share its node.
    """
    for node in slurm.nodes:
        slurm.drain(node, "a test")
    run = left("-p", folder, *words)
    said = slurm.ask("squeue", "-h", "-o", "%b %m %l %C %h").split()
    assert rai("cancel", run).returncode == 0
    return said


def test_a_run_asks_for_its_limits_and_what_rai_needs(
    cluster_home: Home, tmp_path: Path, slurm: Cluster
):
    folder = project(tmp_path, "true", gpu={"count": 1}, cpu={"cores": 2})
    assert asked(folder, slurm) == ["gres:gpu:1", "1G", "11:00", "2", "OK"]


def test_a_job_has_none_of_the_clients_secrets_and_starts_no_login_shell(
    cluster_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
