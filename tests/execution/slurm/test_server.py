"""A real server whose runs a real Slurm runs."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.client.api import ServerClient
from runner.core import Reason, record
from runner.core.wire import QueueState, RemoteRun
from runner.store.paths import Home
from tests.kit import direct
from tests.kit.cluster import Cluster
from tests.kit.direct import SealedProject, ended, queue
from tests.kit.site import Site, serving
from tests.kit.waiting import until

pytestmark = [pytest.mark.slurm, pytest.mark.programs, pytest.mark.local]

SMALL = "{limits: {memory: 256MiB, time: 5m}}"


@pytest.fixture(scope="module")
def served(
    tmp_path_factory: pytest.TempPathFactory, slurm_cluster: Cluster
) -> Iterator[Site]:
    given = {"SLURM_CONF": str(slurm_cluster.conf)}
    folder = tmp_path_factory.mktemp("site")
    with serving(folder, "--place", "slurm", listen="", **given) as made:
        yield made


@pytest.fixture
def site(served: Site, slurm: Cluster) -> Site:
    """A server that serves, and a cluster without jobs."""
    if served.process is None or served.process.poll() is not None:
        served.start()
    return served


def seal(folder: Path, *commands: str, resources: str = SMALL) -> SealedProject:
    return direct.seal(folder, json.dumps(commands), resources)


def waits_in_slurm(client: ServerClient, run: str) -> RemoteRun:
    """Return a run once it says that it waits in Slurm's queue."""

    def found() -> RemoteRun | None:
        seen = client.run(run)
        return seen if seen.state is QueueState.STARTING and seen.why else None

    return until(found)


def goes_on(client: ServerClient, run: str) -> None:
    until(lambda: client.run(run).state is QueueState.RUNNING)


def jobs(slurm: Cluster) -> Counter[str]:
    """Return how many jobs of each name there are that have not ended."""
    return Counter(slurm.ask("squeue", "-h", "-o", "%j").split())


def test_a_run_on_a_server_is_carried_out_by_slurm(site, slurm, tmp_path):
    packed = seal(tmp_path / "p", "echo hi")
    with site.person("red", "ann").client() as client:
        run = queue(client, packed)
        assert ended(client, run).reason is Reason.DONE
    paths = Home(site.state / "home").run(run)
    assert paths.stdout.read_text() == "hi\n"
    assert not paths.order.exists()
    comments = slurm.ask("squeue", "-h", "-t", "all", "-o", "%j %k").splitlines()
    assert f"rai-{run} rai:red/ann" in comments


def test_a_run_that_slurm_has_no_room_for_says_so_and_ends_when_it_is_cancelled(
    site, slurm, tmp_path
):
    others = [slurm.submit("sleep 300", "-n2", "-N1") for _ in slurm.nodes]
    packed = seal(tmp_path / "p", "echo hi")
    with site.person("red", "ann").client() as client:
        first, second = (queue(client, packed) for _ in range(2))
        assert waits_in_slurm(client, first).why.startswith("in Slurm's queue: ")
        client.cancel(first)
        assert ended(client, first).reason is Reason.CANCELLED
        waits_in_slurm(client, second)
        slurm.ask("scancel", *map(str, others))
        assert ended(client, second).reason is Reason.DONE


def test_a_server_that_is_killed_finds_the_runs_that_slurm_has(site, slurm, tmp_path):
    others = [slurm.submit("sleep 300", "-n2", "-N1") for _ in slurm.nodes]
    packed = seal(tmp_path / "p", "echo hi")
    with site.person("red", "ann").client() as client:
        run = queue(client, packed)
        waits_in_slurm(client, run)
        site.kill()
        site.start()
        waits_in_slurm(client, run)
        assert jobs(slurm)[f"rai-{run}"] == 1
        slurm.ask("scancel", *map(str, others))
        assert ended(client, run).reason is Reason.DONE
    found = record.from_json(Home(site.state / "home").run(run).record.read_bytes())
    assert found.verdict is not None


@pytest.mark.slow
def test_while_the_controller_is_away_nothing_starts_and_nothing_is_lost(
    site, slurm, tmp_path
):
    slow = seal(tmp_path / "slow", "sleep 8")
    packed = seal(tmp_path / "p", "echo hi")
    with site.person("red", "ann").client() as client:
        first = queue(client, slow)
        goes_on(client, first)
        slurm.kill("slurmctld", with_=signal.SIGTERM)
        until(lambda: "Slurm" in client.queue().note)
        second = queue(client, packed)
        until(lambda: "Slurm" in client.run(second).why)
        slurm.start("slurmctld")
        assert ended(client, first).reason is Reason.DONE
        assert ended(client, second).reason is Reason.DONE


@pytest.mark.slow
def test_every_run_is_carried_out_once_whenever_the_server_is_killed(site, tmp_path):
    packed = seal(tmp_path / "p", "echo hi")
    rng = random.Random(7)
    with site.person("red", "ann", role="staff").client() as client:
        runs = [queue(client, packed) for _ in range(40)]
        kills = 0
        while any(client.run(run).state is not QueueState.ENDED for run in runs):
            time.sleep(rng.uniform(0.05, 0.5))
            site.kill()
            site.start()
            kills += 1
            assert kills < 100
        assert {client.run(run).reason for run in runs} == {Reason.DONE}
    assert kills >= 5
    home = Home(site.state / "home")
    for run in runs:
        paths = home.run(run)
        assert paths.stdout.read_text() == "hi\n"
        assert "claimed before" not in paths.worker_log.read_text()


def test_a_run_that_slurm_would_never_start_ends_and_keeps_no_others_back(
    site, slurm, tmp_path
):
    packed = seal(tmp_path / "p", "echo hi")
    large = "{limits: {memory: 3GiB, time: 5m}}"
    never = seal(tmp_path / "q", "echo hi", resources=large)
    slurm.ask("scontrol", "update", "PartitionName=main", "MaxMemPerNode=2000")
    try:
        with (
            site.person("red", "ann").client() as red,
            site.person("blue", "bob").client() as blue,
        ):
            runs = [queue(red, never) for _ in range(4)]
            other = queue(blue, packed)
            assert ended(blue, other).reason is Reason.DONE
            for run in runs:
                found = ended(red, run)
                assert found.reason is Reason.NOT_ALLOWED
        assert not jobs(slurm)
    finally:
        slurm.ask("scontrol", "update", "PartitionName=main", "MaxMemPerNode=0")
