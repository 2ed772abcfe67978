"""What a job host on a cluster answers, with a Slurm whose answers the test decides."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from runner.core import Reason
from runner.jobhost import cluster as clusters
from runner.jobhost import gpus_out
from runner.jobhost.cluster import SlurmCluster
from runner.jobhost.desk import JobDesk
from runner.slurm.nodes import listing
from runner.slurm.target import SlurmTarget
from runner.store.home import make
from runner.store.paths import Home
from runner.store.settings import Settings
from runner.wire.host import AskFacts, ClearGpu, HostFacts, LookAt, StartRun
from tests.runner.jobhost.hosting import new_id, sealed
from tests.runner.jobhost.test_desk import ended
from tests.runner.slurm.test_nodes import line
from tests.waiting import until

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
        self.nodes(line("n1"), line("n2"))

    def says(self, program: str, script: str) -> None:
        new = self.folder / f"{program}.new"
        new.write_text(f"#!/bin/sh\n{script}\n")
        new.chmod(new.stat().st_mode | stat.S_IXUSR)
        new.rename(self.folder / program)

    def nodes(self, *lines: str) -> None:
        (self.folder / "nodes").write_text("\n".join(lines) + "\n")
        self.says("sinfo", f"cat {self.folder}/nodes")

    @property
    def asked(self) -> str:
        file = self.folder / "sbatch.asked"
        return file.read_text() if file.exists() else ""


@pytest.fixture
def slurm(tmp_path, monkeypatch) -> PlayedSlurm:
    made = PlayedSlurm(tmp_path / "slurm")
    monkeypatch.setenv("PATH", f"{made.folder}:/usr/bin:/bin")
    monkeypatch.setattr(clusters, "FRESH_S", 0.0)
    monkeypatch.setattr(clusters, "IN_TROUBLE_S", 0.0)
    monkeypatch.setattr(clusters, "SHARE", 0.0)
    return made


@pytest.fixture
def home(tmp_path):
    return make(tmp_path / "rai")


def hosted(home: Home) -> JobDesk:
    settings = Settings(home=home.root)
    return JobDesk(home, carrier=SlurmCluster(home, SlurmTarget("gpu"), settings))


@pytest.fixture
def desk(slurm, home) -> JobDesk:
    return hosted(home)


def facts(desk: JobDesk) -> HostFacts:
    found = desk.reply(AskFacts()).answer.facts
    assert found is not None
    return found


def out(desk: JobDesk) -> dict[str, str]:
    return {node.name: node.out for node in facts(desk).nodes if node.out}


def start(desk: JobDesk, tmp_path: Path, **more: object):
    """Start a run; return its id and the answer."""
    resources = more.pop("resources", {})
    project = sealed(tmp_path, "true", **resources)  # type: ignore[arg-type]
    asked = StartRun(new_id(), **more)  # type: ignore[arg-type]
    with project.parcel.open("rb") as parcel, project.source.open("rb") as source:
        files = [parcel.fileno(), source.fileno()]
        return asked.id, desk.reply(asked, files).answer


def test_the_facts_are_the_nodes_and_each_of_their_gpus(desk, slurm):
    slurm.nodes(
        line("n1", gres="gpu:h100:2", gres_used="gpu:h100:1(IDX:0)"),
        line("n2", state="drained", why="a fan is broken"),
    )
    until(lambda: len(facts(desk).gpus) == 3)
    found = facts(desk)
    assert found.engines == ("slurm:gpu",)
    assert found.nodes[0].gpus_free == {"h100": 1}
    assert [(gpu.uuid, gpu.name, gpu.out) for gpu in found.gpus] == [
        ("n1/gpu0", "h100", ""),
        ("n1/gpu1", "h100", ""),
        ("n2/gpu0", "h100", "node n2 is drained: a fan is broken"),
    ]


def test_while_the_controller_is_away_that_is_said_and_the_nodes_are_still_known(
    desk, slurm
):
    assert len(facts(desk).nodes) == 2
    slurm.says("sinfo", AWAY)
    until(lambda: facts(desk).problems)
    assert "Unable to contact slurm controller" in str(facts(desk).problems[0])
    assert len(facts(desk).nodes) == 2
    slurm.nodes(line("n1"))
    until(lambda: not facts(desk).problems)


def test_a_partition_that_does_not_exist_is_said(desk, slurm):
    slurm.nodes()
    until(lambda: facts(desk).problems)
    assert facts(desk).problems[0].message == "Slurm has no partition gpu"


def test_a_run_is_submitted_with_what_its_file_and_its_row_ask_for(
    desk, slurm, tmp_path
):
    limits = {"memory": "1GiB", "time": "10m"}
    resources = {"limits": limits, "gpu": {"count": 1}}
    run_id, answer = start(
        desk, tmp_path, resources=resources, alone=True, gpu_model="h100"
    )
    assert answer.reason is None
    words = slurm.asked.split()
    assert f"--job-name=rai-{run_id}" in words
    assert {"--partition=gpu", "--gres=gpu:h100:1", "--exclusive"} <= set(words)
    assert "--mem=1536M" in words
    (seen,) = desk.reply(LookAt((run_id,))).answer.runs
    assert not seen.claimed and seen.waits


def test_a_build_file_takes_no_more_cores_than_the_site_gives_a_run(
    slurm, home, tmp_path
):
    settings = Settings(home=home.root, slurm=("--cpus-per-task=2",))
    desk = JobDesk(home, carrier=SlurmCluster(home, SlurmTarget("gpu"), settings))
    start(desk, tmp_path, resources={"cpu": {"cores": 64}})
    assert "--cpus-per-task=2" in slurm.asked.split()


def test_a_run_is_not_alone_unless_its_row_says_so(desk, slurm, tmp_path):
    start(desk, tmp_path)
    assert "--exclusive" not in slurm.asked
    assert "--gres" not in slurm.asked


def test_a_restarted_host_keeps_a_run_that_slurm_has(desk, slurm, home, tmp_path):
    run_id, _ = start(desk, tmp_path)
    again = hosted(home)
    (seen,) = again.reply(LookAt((run_id,))).answer.runs
    assert seen.waits
    assert home.run(run_id).order.exists()


def test_a_run_that_slurm_does_not_take_leaves_nothing(desk, slurm, home, tmp_path):
    slurm.says("sbatch", 'echo "sbatch: error: Invalid account" >&2; exit 1')
    run_id, answer = start(desk, tmp_path)
    assert answer.reason is Reason.BAD_CONFIG
    assert not home.run(run_id).root.exists()


def test_a_run_that_slurm_cannot_be_asked_for_is_one_for_later(
    desk, slurm, home, tmp_path
):
    slurm.says("sbatch", AWAY.replace("slurm_load_node", "sbatch: error"))
    run_id, answer = start(desk, tmp_path)
    assert answer.reason is Reason.BUSY
    assert not home.run(run_id).root.exists()


def test_after_an_error_of_a_gpu_its_node_gets_no_run_until_it_is_cleared(
    desk, slurm, home, tmp_path, monkeypatch
):
    facts(desk)
    monkeypatch.setattr(SlurmCluster, "node", lambda self, paths: "n1")
    run_id = ended(home, Reason.GPU_ERROR, "GPU-a")
    desk.reply(LookAt((run_id,)))
    why = out(desk)["n1"]
    assert f"run {run_id} ended with an error of a GPU of this node" in why
    start(desk, tmp_path)
    assert "--exclude=n1" in slurm.asked
    desk.reply(ClearGpu("n1/gpu0"))
    assert out(desk) == {}


def test_a_node_comes_back_by_itself_once_slurm_says_that_it_is_well(
    desk, slurm, home, monkeypatch
):
    slurm.nodes(line("n1", state="drained", why="a fan is broken"), line("n2"))
    until(lambda: out(desk))
    monkeypatch.setattr(SlurmCluster, "node", lambda self, paths: "n1")
    desk.reply(LookAt((ended(home, Reason.GPU_ERROR, "GPU-a"),)))
    monkeypatch.setattr(gpus_out, "LEAST_S", 0.0)
    until(lambda: out(desk) == {"n1": "is drained: a fan is broken"})
    slurm.nodes(line("n1"), line("n2"))
    until(lambda: not out(desk))


def test_the_command_of_the_nodes_is_the_partition_s(desk, slurm):
    slurm.says("sinfo", f'echo "$@" > {slurm.folder}/words; cat {slurm.folder}/nodes')
    until(lambda: facts(desk) and (slurm.folder / "words").exists())
    assert (slurm.folder / "words").read_text().split() == listing("gpu")[1:]
