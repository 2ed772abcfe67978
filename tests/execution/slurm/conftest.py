"""A home of its own for each test, for a client that finds the cluster."""

from __future__ import annotations

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
def full(slurm: Cluster) -> Cluster:
    """The cluster while no node takes a job."""
    for node in slurm.nodes:
        slurm.drain(node, "a broken fan")
    return slurm
