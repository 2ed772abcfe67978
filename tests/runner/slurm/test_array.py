"""`--repeat N --array`: samples as an array of jobs of a real Slurm."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from runner.store import handed
from runner.store.paths import Home
from tests.program import RAI, rai
from tests.runner.slurm.cluster import Cluster

pytestmark = [pytest.mark.slurm, pytest.mark.programs]

SOON_S = 60.0
THREE = ("--on", "slurm", "--repeat", "3", "--array")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slurm: Cluster) -> Home:
    """A home of its own, for a client that finds the cluster, by the engine bare."""
    monkeypatch.setenv("RAI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("RAI_ENGINE", "bare")
    monkeypatch.delenv("CI", raising=False)
    return Home(tmp_path / "home")


def project(folder: Path, *commands: str) -> str:
    made = folder / "project"
    made.mkdir()
    limits = {"memory": "512MiB", "time": "5m"}
    spec = {
        "rai": {"image": "debian:bookworm-slim"},
        "resources": {"limits": limits},
        "commands": {"build": list(commands)},
    }
    (made / "rai_build.yml").write_text(json.dumps(spec))
    return str(made)


def test_samples_run_one_after_another_on_one_node_and_are_summed_up(
    home: Home, tmp_path: Path
):
    shared = tmp_path / "now"
    folder = project(
        tmp_path,
        f"mkdir {shared} && sleep 0.2 && rmdir {shared}",
        "echo Op Time: 0.5; echo $SLURMD_NODENAME $SLURM_ARRAY_TASK_ID",
    )
    done = rai("run", "-p", folder, *THREE)
    assert done.returncode == 0, done.stderr
    row = next(line for line in done.stdout.splitlines() if "op time" in line)
    assert "3  0.500000 s" in row
    said = [line for line in done.stderr.splitlines() if "Sample " in line]
    assert [line.split(":")[0].split()[-3:] for line in said] == [
        [str(n), "of", "3"] for n in (1, 2, 3)
    ]
    runs = [line.split("Run ")[1].split()[0] for line in said]
    outputs = [home.run(run).stdout.read_text().splitlines()[1] for run in runs]
    nodes = {line.split()[0] for line in outputs}
    assert len(nodes) == 1
    assert [line.split()[1] for line in outputs] == ["1", "2", "3"]
    assert all(rai("show", run).returncode == 0 for run in runs)


def test_the_exit_status_is_that_of_the_first_sample_that_failed(
    home: Home, tmp_path: Path
):
    done = rai("run", "-p", project(tmp_path, "test $SLURM_ARRAY_TASK_ID != 2"), *THREE)
    assert done.returncode == 1
    assert "Sample 2 of 3: Run" in done.stderr
    assert "Sample 3 of 3: Run" in done.stderr


def test_samples_that_are_left_are_looked_up_and_cancelled_each_by_itself(
    home: Home, tmp_path: Path, slurm: Cluster
):
    go = tmp_path / "go"
    folder = project(tmp_path, f"while ! test -e {go}; do sleep 0.1; done")
    done = rai("run", "-p", folder, *THREE, "--detach")
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.split()
    tasks = [handed.read(home.run(run)) for run in (first, second, third)]
    assert [one and one.task for one in tasks] == [1, 2, 3]
    assert len({one and one.name for one in tasks}) == 1
    slurm.until(lambda: home.run(first).holder.exists(), SOON_S)
    assert rai("cancel", second).returncode == 0
    slurm.until(lambda: home.run(second).record.exists(), SOON_S)
    assert not home.run(first).record.exists()
    assert "waiting" in rai("show", third).stdout
    # What is left of the others does not hang on the first one's folder.
    go.touch()
    assert rai("wait", first).returncode == 0
    assert rai("rm", first).returncode == 0
    assert rai("wait", third).returncode == 0
    assert rai("wait", second).returncode == 130


@pytest.mark.usefixtures("default_signals")
def test_a_signal_cancels_all_samples_that_have_not_ended(
    home: Home, tmp_path: Path, slurm: Cluster
):
    folder = project(tmp_path, "sleep 300")
    with subprocess.Popen(
        [RAI, "run", "-p", folder, *THREE], stderr=subprocess.PIPE, text=True
    ) as client:
        slurm.until(lambda: any(home.runs.glob("*/stdout.log")), SOON_S)
        client.send_signal(signal.SIGINT)
        _, said = client.communicate(timeout=SOON_S)
    assert client.returncode == 130
    assert said.count("cancelled: stopped on request") == 3
    slurm.until(lambda: not slurm.ask("squeue", "-h", "-t", "PENDING,RUNNING"), SOON_S)


def test_a_second_job_that_wants_the_node_waits_for_the_sample(
    home: Home, tmp_path: Path, slurm: Cluster
):
    go = tmp_path / "go"
    folder = project(tmp_path, f"while ! test -e {go}; do sleep 0.1; done")
    done = rai("run", "-p", folder, *THREE, "--detach")
    run = done.stdout.split()[0]
    slurm.until(lambda: home.run(run).holder.exists(), SOON_S)
    held = json.loads(home.run(run).holder.read_text())
    (node,) = {n for n, state in slurm.node_states().items() if state.startswith("all")}
    job = slurm.submit("true", f"--nodelist={node}", "--mem=100M")
    assert held
    assert slurm.state(job) == "PENDING"
    go.touch()
    assert rai("wait", *done.stdout.split()).returncode == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--repeat", "3", "--array", "--on", "here"], "--array is for runs on Slurm"),
        (["--array", "--on", "slurm"], "--array needs --repeat N"),
        ([*THREE, "--budget", "1m"], "--budget is not for --array"),
        ([*THREE, "-o", "out"], "--output is not for --array"),
    ],
)
def test_what_has_no_meaning_for_samples_is_refused(
    home: Home, tmp_path: Path, words: list[str], why: str
):
    done = rai("run", "-p", project(tmp_path, "true"), *words)
    assert done.returncode == 2
    assert why in done.stderr
