"""Runs on Slurm while something fails: none runs twice, none is falsely done.

Each command writes a line outside of its run when it begins.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.core import Reason, State
from runner.execution import places
from runner.execution.slurm_jobs import SILENT_S
from tests.kit.cluster import AT_ONCE, Cluster, cluster
from tests.kit.program import rai
from tests.kit.slurm_site import HandedOver, Site
from tests.kit.waiting import until

pytestmark = [pytest.mark.slurm, pytest.mark.programs]

TOLD_S = 15.0
"""So soon after Slurm knows of a loss a run has its end."""

SKEWED = """
import os, time
if "SLURMD_NODENAME" in os.environ:
    now = time.time
    time.time = lambda: now() + {skew_s}
"""
"""What has Python on a node see another time of day."""


def of(cluster: Cluster, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Return a user of a cluster who runs things by the engine bare."""
    monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
    monkeypatch.setenv("RAI_ENGINE", "bare")
    return Site(cluster, folder)


@pytest.fixture
def site(slurm: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return of(slurm, tmp_path, monkeypatch)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A user of a cluster that no other test has: a killed daemon leaves its marks."""
    with cluster() as made:
        yield of(made, tmp_path, monkeypatch)


def held(site: Site, before: str = "", after: str = "") -> HandedOver:
    """Begin a run that goes on until ``go``."""
    loop = f"while ! test -e {site.folder}/go; do sleep 0.1; done"
    return site.hand_over(before + loop + after).begun()


def go(site: Site) -> None:
    (site.folder / "go").touch()


def test_a_worker_that_is_killed_is_a_lost_run_that_says_so(site):
    run = site.hand_over("sleep 60").begun()
    run.kill_worker()
    found = run.ended(TOLD_S)
    assert found.state is State.LOST
    assert found.verdict is not None
    assert found.verdict.reason is Reason.RUNNER_LOST
    assert f"Slurm's job {run.job} on n" in found.verdict.message
    assert "RUNNING" not in found.verdict.message
    assert run.times == 1


def test_a_job_that_is_killed_before_its_worker_has_claimed_the_run_never_runs(site):
    site.cluster.drain("n1", "a broken fan")
    site.cluster.drain("n2", "a broken fan")
    run = site.hand_over("true")
    site.cluster.ask("scancel", f"{run.job}")
    found = run.ended(TOLD_S)
    assert found.verdict is not None
    assert found.verdict.reason is Reason.CANCELLED
    assert run.times == 0


def test_a_run_outlives_its_slurmd_whether_that_comes_back_or_not(own):
    run = held(own)
    node = run.node
    own.cluster.kill("slurmd", node)
    own.cluster.start("slurmd", node)
    own.cluster.wait(["alloc", "mix"], [node])
    own.cluster.kill("slurmd", node)
    go(own)
    assert run.kept_its_word().state is State.DONE


@pytest.mark.slow
def test_a_run_outlives_its_controller(own):
    run = held(own)
    own.cluster.kill("slurmctld", with_=signal.SIGTERM)
    go(own)
    assert run.kept_its_word().state is State.DONE
    refused = rai("run", "--on", "slurm", "-p", own.project(["true"]))
    assert refused.returncode == 8
    assert "Unable to contact slurm controller" in refused.stderr


def test_a_node_without_power_is_a_lost_run_and_nothing_runs_when_it_is_back(own):
    run = own.hand_over("sleep 60").begun()
    node = run.node
    own.cluster.power_off(node)
    own.cluster.down(node, "no power")
    found = run.ended(TOLD_S)
    assert found.state is State.LOST
    assert found.verdict is not None
    # Slurm may see first that the job's processes are gone, that its node is, or that
    # it cannot tell the node to start it.
    assert f"Slurm's job {run.job} " in found.verdict.message
    own.cluster.start("slurmd", node)
    own.cluster.wait(["idle"], [node])
    assert own.hand_over("true").kept_its_word().state is State.DONE
    assert run.times == 1


def test_a_run_is_not_put_back_into_the_queue(site):
    run = held(site)
    with pytest.raises(AssertionError, match="disabled"):
        site.cluster.ask("scontrol", "requeue", f"{run.job}")
    go(site)
    assert run.kept_its_word().state is State.DONE


def test_what_scancel_ends_says_so_and_keeps_what_it_wrote(site):
    run = site.hand_over("echo x > kept; sleep 60").begun()
    site.cluster.ask("scancel", f"{run.job}")
    found = run.ended(TOLD_S)
    assert found.state is State.CANCELLED
    assert found.verdict is not None
    assert "CANCELLED" in found.verdict.message
    assert run.paths.build.exists()


@pytest.mark.slow
def test_a_run_that_is_preempted_says_so_and_keeps_what_it_wrote(tmp_path, monkeypatch):
    settings = {
        **AT_ONCE,
        "PreemptType": "preempt/partition_prio",
        "PreemptMode": "CANCEL",
    }
    partitions = (
        "PartitionName=main Nodes=ALL Default=YES PriorityTier=1 GraceTime=3",
        "PartitionName=urgent Nodes=ALL PriorityTier=9",
    )
    with cluster(["n1"], settings, partitions) as made:
        site = of(made, tmp_path, monkeypatch)
        run = site.hand_over("echo x > kept; sleep 60").begun()
        urgent = made.submit("true", "--partition=urgent", "--exclusive")
        found = run.ended()
        assert found.state is State.CANCELLED
        assert found.verdict is not None
        assert "PREEMPTED" in found.verdict.message
        assert run.paths.build.exists()
        made.until(lambda: made.state(urgent) == "COMPLETED")
        assert run.times == 1


@pytest.mark.slow
def test_a_run_has_the_time_of_its_partition_and_ends_for_that(tmp_path, monkeypatch):
    partitions = ("PartitionName=main Nodes=ALL Default=YES MaxTime=1",)
    with cluster(["n1"], AT_ONCE, partitions) as made:
        run = of(made, tmp_path, monkeypatch).hand_over("echo x > kept; sleep 200")
        found = run.ended(150)
    assert found.verdict is not None
    assert found.verdict.reason is Reason.TIME_LIMIT
    assert "TIMEOUT" in found.verdict.message
    assert run.paths.build.exists()
    (warned,) = [one for one in found.warnings if "Slurm" in one]
    assert warned.startswith("Slurm ends this run after 1 min, the most in the default")


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """A folder on another file system, which can be taken away and brought back."""
    if os.geteuid():
        pytest.skip("only root mounts")
    (tmp_path / "server").mkdir()
    folder = tmp_path / "shared"
    folder.mkdir()
    mount(folder)
    yield folder
    for _ in range(2):
        subprocess.run(["umount", "-l", folder], capture_output=True, check=False)


def mount(folder: Path) -> None:
    subprocess.run(["mount", "--bind", folder.parent / "server", folder], check=True)


def unmount(folder: Path) -> None:
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_run_outlives_its_file_system(site, mounted, monkeypatch):
    monkeypatch.setenv("RAI_HOME", str(mounted / "home"))
    run = held(site, "echo first; ", "; echo then")
    unmount(mounted)
    go(site)
    time.sleep(3)  # at least one sign of life cannot be given
    mount(mounted)
    assert run.kept_its_word().state is State.DONE
    assert run.paths.stdout.read_bytes() == b"first\nthen\n"


def test_a_run_whose_file_system_is_away_at_its_end_has_an_end(
    site, mounted, monkeypatch
):
    monkeypatch.setenv("RAI_HOME", str(mounted / "home"))
    run = held(site)
    worker = run.worker
    unmount(mounted)
    go(site)
    until(lambda: not Path(f"/proc/{worker}").exists())
    mount(mounted)
    assert run.kept_its_word().verdict is not None


@pytest.mark.slow
def test_a_worker_that_hangs_is_not_given_up_while_its_job_runs(site):
    run = site.hand_over("true; sleep 3").begun()
    os.kill(run.worker, signal.SIGSTOP)  # as where its file system does not answer
    assert not places.wait(run.paths, SILENT_S + 3)
    os.kill(run.worker, signal.SIGCONT)
    assert run.kept_its_word().state is State.DONE


@pytest.mark.parametrize("skew_s", [-3600, 3600])
def test_a_node_whose_clock_is_off_carries_a_run_out(
    site, tmp_path, monkeypatch, skew_s
):
    (tmp_path / "sitecustomize.py").write_text(SKEWED.format(skew_s=skew_s))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    run = held(site)
    assert abs(run.paths.events.stat().st_mtime - time.time()) < 600
    go(site)
    found = run.kept_its_word()
    assert found.state is State.DONE
    assert found.created_at - time.time() == pytest.approx(skew_s, abs=600)
    lost = site.hand_over("sleep 60").begun()
    lost.kill_worker()
    assert lost.ended(TOLD_S).state is State.LOST
