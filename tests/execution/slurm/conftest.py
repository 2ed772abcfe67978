"""A home of its own for each test, for a client that finds the cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.store.paths import Home
from tests.kit.cluster import Cluster


@pytest.fixture
def cluster_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slurm: Cluster
) -> Home:
    """A home of its own, for runs by the engine bare."""
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    monkeypatch.setenv("RAI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("RAI_ENGINE", "bare")
    monkeypatch.delenv("CI", raising=False)
    return Home(tmp_path / "home")


@pytest.fixture
def full(slurm: Cluster) -> Iterator[Cluster]:
    """The cluster while it starts no job."""
    slurm.ask("scontrol", "update", "PartitionName=main", "State=DOWN")
    yield slurm
    slurm.ask("scancel", "--quiet", "--full", f"--user={os.geteuid()}")
    slurm.ask("scontrol", "update", "PartitionName=main", "State=UP")
