"""Runs on a real GPU that Slurm gives out, with and without its device constraint."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.store.paths import Home, RunPaths
from tests.kit import gpunode
from tests.kit import slurm_site as site
from tests.kit.cluster import Cluster
from tests.kit.program import rai
from tests.kit.slurm_site import ended, left
from tests.kit.waiting import until

pytestmark = [
    *(pytest.mark.gpu, pytest.mark.slurm, pytest.mark.local, pytest.mark.programs),
    pytest.mark.lengthy,
]

ONE = {"count": 1}
MAYBE = {"count": 1, "optional": True}
LIST = "nvidia-smi -L; echo visible $CUDA_VISIBLE_DEVICES; ls /dev/nvidia[0-9]*"
NONE = "ls /dev/nvidia* 2>/dev/null || echo none"


@pytest.fixture(scope="module", params=["open", "constrained"])
def nodes(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Start the cluster, whose jobs may open every GPU or their own alone."""
    constrained = request.param == "constrained"
    if constrained and (why := gpunode.why_unconstrained()):
        pytest.skip(why)
    with gpunode.gpu_cluster(constrained=constrained) as made:
        yield made


@pytest.fixture
def home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nodes: Cluster
) -> Iterator[Home]:
    """A home of its own, for a client that finds the cluster, by the local engine."""
    monkeypatch.setenv("SLURM_CONF", str(nodes.conf))
    monkeypatch.setenv("RAI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("RAI_ENGINE", "local")
    monkeypatch.delenv("CI", raising=False)
    yield Home(tmp_path / "home")
    nodes.tidy()


def project(folder: Path, *commands: object, **resources: object) -> str:
    """Make a project without an image, which runs in the strict profile."""
    return site.project(folder, *commands, head={"version": 0.2}, **resources)


def node_of(paths: RunPaths) -> str:
    """Return the node that carried the run out, as the run's claim names it."""
    return str(json.loads(paths.holder.read_bytes())["on"])


def in_job(nodes: Cluster, folder: Path, script: str, *words: str) -> str:
    """Return what a script prints in a job, once it is over."""
    file = folder / f"{len(list(folder.iterdir()))}.txt"
    job = nodes.submit(f"( {script} ) > {file} 2>&1", *words)
    nodes.until(lambda: nodes.state(job) in {"COMPLETED", "FAILED"})
    return file.read_text()


def test_a_run_gets_the_gpus_of_its_job_and_no_other(home, tmp_path):
    folder = project(tmp_path, LIST, gpu=ONE)
    run = left("-p", folder)
    assert rai("wait", run).returncode == 0
    shown = rai("logs", run).stdout
    print(rai("show", run).stdout, shown)
    found, paths = ended(home.run(run)), home.run(run)
    assert node_of(paths) == "n1"
    assert found.gpu is not None
    (gpu,) = found.gpu.gpus
    assert gpu.uuid in gpunode.uuids()
    assert f"visible {gpu.uuid}\n" in shown
    assert shown.count("UUID: ") == 1
    assert f"(UUID: {gpu.uuid})" in shown
    assert [line for line in shown.split() if line.startswith("/dev/")] == [*gpu.nodes]


@pytest.mark.parametrize("partition", ["gpu", "plain"])
def test_a_run_that_asks_for_no_gpu_sees_none(home, tmp_path, partition):
    done = rai("run", "--on", f"slurm:{partition}", "-p", project(tmp_path, NONE))
    print(done.stderr, done.stdout)
    assert (done.returncode, done.stdout) == (0, "none\n")


def test_a_run_without_a_gpu_goes_beside_the_one_that_has_it(home, tmp_path):
    busy = left(
        *("--on", "slurm", "-p", project(tmp_path, "echo on; sleep 20", gpu=ONE))
    )
    until(home.run(busy).stdout.exists)
    done = rai("run", "--on", "slurm:gpu", "-p", project(tmp_path, NONE))
    assert (done.returncode, done.stdout) == (0, "none\n")
    assert rai("cancel", busy).returncode == 0


def test_an_optional_gpu_is_done_without_where_the_partition_has_none(home, tmp_path):
    commands = {"run": "nvidia-smi -L", "needs": "gpu"}, NONE
    folder = project(tmp_path, *commands, gpu=MAYBE)
    done = rai("run", "--on", "slurm:plain", "-p", folder)
    print(done.stderr)
    assert (done.returncode, done.stdout) == (0, "none\n")
    done = rai("run", "--on", "slurm", "-p", folder)
    assert done.returncode == 0
    assert "UUID: GPU-" in done.stdout


@pytest.mark.parametrize("gpu", [ONE, MAYBE])
def test_more_gpus_than_a_node_has_are_refused(home, tmp_path, gpu):
    more = str(len(gpunode.uuids()) + 1)
    folder = project(tmp_path, LIST, gpu=gpu)
    done = rai("run", "--on", "slurm", "-p", folder, "--gpus", more)
    print(done.returncode, done.stderr)
    assert done.returncode in (9, 11)
    assert "gpu" in done.stderr.lower()
    assert done.stdout == ""


def test_a_run_waits_in_slurm_for_the_gpu_of_another_and_then_gets_it(home, tmp_path):
    gpus = {"count": len(gpunode.uuids())}
    held = project(tmp_path, "echo on; sleep 300", gpu=gpus)
    first = left("-p", held)
    until(home.run(first).stdout.exists)
    second = left("-p", project(tmp_path, LIST, gpu=gpus))
    until(home.run(second).handed.exists)
    time.sleep(2)  # in which Slurm considers it
    shown = rai("show", second).stdout
    print(rai("ps").stdout, shown)
    assert "waiting: " in shown
    assert not home.run(second).stdout.exists()
    assert rai("cancel", first).returncode == 0
    began = time.monotonic()
    assert rai("wait", second).returncode == 0
    print(f"{time.monotonic() - began:.2f} s from the end of the first to its end")
    assert "UUID: GPU-" in rai("logs", second).stdout


def test_the_gpu_of_a_worker_that_was_killed_is_the_next_runs(home, tmp_path):
    gpus = {"count": len(gpunode.uuids())}
    folder = project(tmp_path, "echo on; sleep 300", gpu=gpus)
    run = left("-p", folder)
    until(home.run(run).stdout.exists)
    holder = json.loads(home.run(run).holder.read_bytes())
    os.kill(holder["process"]["pid"], signal.SIGKILL)
    began = time.monotonic()
    done = rai("wait", run)
    lost_s = time.monotonic() - began
    print(f"lost after {lost_s:.2f} s", done.stderr, rai("show", run).stdout)
    assert done.returncode == 10
    assert ended(home.run(run)).state == "lost"
    began = time.monotonic()
    done = rai("run", "--on", "slurm", "-p", project(tmp_path, LIST, gpu=gpus))
    print(f"the next took {time.monotonic() - began:.2f} s", done.stderr)
    assert done.returncode == 0
    assert "UUID: GPU-" in done.stdout


def test_a_run_within_a_job_has_the_jobs_gpu_or_none(home, tmp_path, nodes):
    folder = project(tmp_path, LIST, gpu=ONE)
    texts = tmp_path / "texts"
    texts.mkdir()
    own = f"cd {gpunode.ROOT}; RAI_HOME={home.root} {sys.executable} -m runner.cli.main"
    run = f"{own} run --on here --engine local -p {folder}; echo ended $?"
    given = in_job(nodes, texts, run, "--gres=gpu:1")
    without = in_job(nodes, texts, run, "--partition=gpu")
    for words in (["--gres=gpu:1"], ["--partition=gpu"]):
        print(*words, in_job(nodes, texts, f"{own} doctor | grep GPU", *words))
    print(given, without)
    assert "ended 0" in given
    assert "UUID: GPU-" in given
    assert "ended 11" in without
    assert "UUID: GPU-" not in without
    assert "has no GPU; ask Slurm for GPUs" in without


def test_a_run_that_takes_more_memory_than_its_job_has_ends_for_that(home, tmp_path):
    folder = project(tmp_path, "python3 -c 'print(len(b\"x\" * (3 << 30)))'")
    run = left("--on", "slurm:gpu", "-p", folder)
    done = rai("wait", run)
    print(done.returncode, done.stderr, rai("show", run).stdout)
    assert done.returncode == 6
    assert ended(home.run(run)).state == "done"


def test_the_driver_lists_the_jobs_gpus_alone_where_devices_are_constrained(
    home, tmp_path, nodes
):
    ask = "nvidia-smi -L; exec 3<>/dev/nvidia0 && echo opened"
    texts = tmp_path / "texts"
    texts.mkdir()
    given = in_job(nodes, texts, ask, "--gres=gpu:1")
    without = in_job(nodes, texts, ask, "--partition=gpu")
    print(given, without)
    assert given.count("UUID: GPU-") >= 1
    assert "opened" in given
    constrained = "opened" not in without
    assert constrained is bool("proctrack/cgroup" in nodes.conf.read_text())
    assert ("UUID: GPU-" in without) is not constrained
