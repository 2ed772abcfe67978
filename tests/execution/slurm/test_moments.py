"""What a run on Slurm needs is killed at twenty moments of its life each.

The moments lie closer than those at which Slurm and rai do something.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.kit.cluster import cluster
from tests.kit.program import RAI, rai
from tests.kit.slurm_site import Site

pytestmark = [pytest.mark.slurm, pytest.mark.programs, pytest.mark.slow]

MOMENTS = 20
SPAN_S = 3.0
"""How long a run takes, about, from its client's start to its end.

Of a run that was handed over, about half of it is left.
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A user of a cluster that no other test has: what is killed leaves its marks."""
    with cluster() as made:
        monkeypatch.setenv("SLURM_CONF", str(made.conf))
        monkeypatch.setenv("RAI_ENGINE", "bare")
        yield Site(made, tmp_path)


def moments() -> Iterator[float]:
    return (number * SPAN_S / MOMENTS for number in range(MOMENTS))


def test_a_run_whose_client_is_killed_runs_once_at_most(site):
    for after_s in moments():
        project, _ = site.traced("sleep 0.5")
        words = [RAI, "run", "--on", "slurm", "-p", project]
        with subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as client:
            with suppress(subprocess.TimeoutExpired):
                client.wait(after_s)
            client.kill()
    ends = site.settled()
    print(f"{len(site.begun())} of {MOMENTS} began; ends: {dict(ends)}")
    assert ends["done"]


def test_a_run_whose_worker_is_killed_runs_once_and_has_an_end(site):
    killed = 0
    for after_s in moments():
        run = site.hand_over("sleep 0.5")
        time.sleep(after_s / 2)
        for pid in workers(run.paths.id):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
    ends = site.settled()
    print(f"{killed} killed; ends: {dict(ends)}")
    assert ends["done"]
    assert ends["runner_lost"]
    assert ends.total() == MOMENTS


def workers(run: str) -> list[int]:
    """Return the workers of a run, also one that has only just begun."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"runner.execution.node" in words and run.encode() in words[-2]:
                found.append(int(entry.name))
    return found


def test_a_run_outlives_its_slurmd_killed_at_any_moment(site):
    for after_s in moments():
        site.hand_over("sleep 0.5")
        time.sleep(after_s / 2)
        for node in site.cluster.nodes:
            site.cluster.kill("slurmd", node)
            site.cluster.start("slurmd", node)
    ends = site.settled()
    print(f"ends: {dict(ends)}")
    assert ends["done"]
    assert ends.total() == MOMENTS


def test_a_run_whose_controller_is_killed_runs_once_at_most(site):
    refused = 0
    for after_s in moments():
        project, _ = site.traced("sleep 0.5")
        done = rai("run", "--on", "slurm", "--detach", "-p", project)
        assert done.returncode in (0, 8), done.stderr
        refused += done.returncode == 8
        time.sleep(after_s / 2)
        site.cluster.kill("slurmctld")
        site.cluster.start("slurmctld")
    ends = site.settled()
    print(f"{refused} refused; ends: {dict(ends)}")
    assert ends["done"]
