"""A server on a cluster, with a Slurm whose answers the test decides."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from msgspec.structs import replace

from runner.core import Reason
from runner.core.addresses import SlurmTarget
from runner.core.errors import ConfigError
from runner.core.policy import RolePolicy
from runner.core.request import Terms
from runner.core.wire import Capacity
from runner.server import workers as clusters
from runner.server.folders import ServerRuns
from runner.server.workers import SlurmCluster
from runner.store.home import make
from runner.store.paths import Home
from runner.store.settings import Settings
from tests.execution.slurm.test_jobs import line
from tests.kit.begun import new_id, sealed
from tests.kit.waiting import until

SQUEUE = "exit 0"
TAKEN = 'cat > /dev/null; echo "$@" >> "$0.asked"; echo 7'
AWAY = 'echo "slurm_load_node: Unable to contact slurm controller" >&2; exit 1'


class PlayedSlurm:
    """Programs of Slurm that say what the test wants; ``asked`` is sbatch's words."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.says("squeue", SQUEUE)
        self.says("scancel", "exit 0")
        self.says("sbatch", TAKEN)
        self.lists(line("gpu", gres="gpu:h100:4"))

    def says(self, program: str, script: str) -> None:
        new = self.folder / f"{program}.new"
        new.write_text(f"#!/bin/sh\n{script}\n")
        new.chmod(new.stat().st_mode | stat.S_IXUSR)
        new.rename(self.folder / program)

    def lists(self, *lines: str) -> None:
        (self.folder / "listed").write_text("\n".join(lines) + "\n")
        self.says("sinfo", f"cat {self.folder}/listed")

    @property
    def asked(self) -> str:
        file = self.folder / "sbatch.asked"
        return file.read_text() if file.exists() else ""


@pytest.fixture
def slurm(tmp_path, monkeypatch) -> PlayedSlurm:
    made = PlayedSlurm(tmp_path / "slurm")
    monkeypatch.setenv("PATH", f"{made.folder}:/usr/bin:/bin")
    monkeypatch.setattr(clusters, "CLUSTER_FRESH_S", 0.0)
    return made


@pytest.fixture
def home(tmp_path):
    return make(tmp_path / "rai")


def folders(home: Home, *options: str) -> ServerRuns:
    settings = Settings(home=home.root, slurm=options)
    return ServerRuns(home, SlurmCluster(home, SlurmTarget("gpu"), settings))


@pytest.fixture
def runs(slurm, home) -> ServerRuns:
    return folders(home)


def facts(runs: ServerRuns) -> Capacity:
    return until(runs.capacity)


def start(runs: ServerRuns, tmp_path: Path, **more: object):
    """Start a run; return its id and the answer."""
    resources = more.pop("resources", {})
    slurm = more.pop("slurm", {})
    project = sealed(tmp_path, "true", **resources)  # type: ignore[arg-type]
    terms = Terms(allowed=RolePolicy(source="a role"), slurm=slurm)
    asked = replace(project.asked, terms=terms)
    return (run_id := new_id()), runs.start(run_id, asked, project.source)


def test_the_facts_are_whether_slurm_answers_and_the_gpus_of_a_node(runs, slurm):
    assert (facts(runs).engines, facts(runs).node_gpus) == (("slurm:gpu",), 4)
    slurm.says("sinfo", AWAY)
    until(lambda: facts(runs).problems)
    assert "Unable to contact slurm controller" in str(facts(runs).problems[0])
    assert (facts(runs).engines, facts(runs).node_gpus) == ((), 4)
    slurm.lists(line("gpu"))
    until(lambda: not facts(runs).problems)


def test_a_partition_that_does_not_exist_is_said(runs, slurm):
    slurm.lists()
    until(lambda: facts(runs).problems)
    assert facts(runs).problems[0].message == "Slurm has no partition gpu"


def test_a_run_is_submitted_with_what_its_file_and_its_row_ask_for(
    runs, slurm, tmp_path
):
    limits = {"memory": "1GiB", "time": "10m"}
    resources = {"limits": limits, "gpu": {"count": 1}}
    asked = {"account": "course", "partition": "big", "comment": "rai:red/ann"}
    run_id, answer = start(runs, tmp_path, resources=resources, slurm=asked)
    assert answer.reason is None
    words = slurm.asked.split()
    assert f"--job-name=rai-{run_id}" in words
    assert {"--partition=big", "--gres=gpu:1", "--account=course"} <= set(words)
    assert {"--comment=rai:red/ann", "--mem=1536M"} <= set(words)
    seen = runs.look([run_id])[run_id]
    assert not seen.claimed and seen.waits


def test_a_build_file_takes_no_more_cores_than_the_site_gives_a_run(
    slurm, home, tmp_path
):
    runs = folders(home, "--cpus-per-task=2")
    start(runs, tmp_path, resources={"cpu": {"cores": 64}})
    assert "--cpus-per-task=2" in slurm.asked.split()


@pytest.mark.parametrize(
    "asked", [{"wrap": "id"}, {"comment": "a\nb"}, {"account": ""}]
)
def test_what_is_no_word_for_sbatch_is_not_asked_for(runs, slurm, tmp_path, asked):
    with pytest.raises(ConfigError, match="sbatch"):
        start(runs, tmp_path, slurm=asked)
    assert not slurm.asked


def test_a_restarted_server_keeps_a_run_that_slurm_has(runs, slurm, home, tmp_path):
    run_id, _ = start(runs, tmp_path)
    seen = folders(home).look([run_id])[run_id]
    assert seen.waits
    assert home.run(run_id).order.exists()


def test_a_run_that_slurm_does_not_take_leaves_nothing(runs, slurm, home, tmp_path):
    slurm.says("sbatch", 'echo "sbatch: error: Invalid account" >&2; exit 1')
    run_id, answer = start(runs, tmp_path)
    assert answer.reason is Reason.BAD_CONFIG
    assert not home.run(run_id).root.exists()


def test_a_run_that_slurm_cannot_be_asked_for_is_one_for_later(
    runs, slurm, home, tmp_path
):
    slurm.says("sbatch", AWAY.replace("slurm_load_node", "sbatch: error"))
    run_id, answer = start(runs, tmp_path)
    assert answer.reason is Reason.BUSY
    assert not home.run(run_id).root.exists()
