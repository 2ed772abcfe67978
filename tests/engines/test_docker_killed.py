"""What becomes of a run's container when the process that holds it is gone."""

from __future__ import annotations

import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import docker
import pytest
from docker.errors import APIError

from runner import engines
from runner.core import Profile
from runner.engines.docker import confinement, owner
from runner.engines.docker.attach import hold_stdin
from tests.kit.running import IMAGE
from tests.kit.waiting import until

pytestmark = pytest.mark.docker

ROOT = Path(__file__).resolve().parents[2]
ONE_RUN = [sys.executable, "-m", "tests.kit.one_docker_run"]

KILL_ALL_OTHERS = "kill -KILL -1; echo x > /build/tried; sleep 600"
STOP_ALL_OTHERS = (
    "for p in /proc/[0-9]*; do p=${p#/proc/}; [ $p = $$ ] || kill -STOP $p; done;"
    f" : </proc/1/fd/0; {KILL_ALL_OTHERS}"
)
"""Stop and kill whatever is not this shell, and open the keeper's stdin."""


@pytest.fixture
def run_id(client: docker.APIClient) -> Iterator[str]:
    """The name of a run; what it leaves is removed."""
    name = f"killed{secrets.token_hex(4)}"
    yield name
    ours = {"label": f"{owner.RUN}={name}"}
    for container in client.containers(all=True, filters=ours):
        with suppress(APIError):  # another run removes what its killed owner left, too
            client.remove_container(container["Id"], force=True)
    until(lambda: client.containers(all=True, filters=ours) == [])
    for volume in client.volumes(filters=ours)["Volumes"] or ():
        with suppress(APIError):
            client.remove_volume(volume["Name"], force=True)


def running(client: docker.APIClient, run_id: str) -> list[str]:
    """The containers of a run that run."""
    found = client.containers(filters={"label": f"{owner.RUN}={run_id}"})
    return [each["Id"] for each in found]


def printed(client: docker.APIClient, container: str, *command: str) -> bytes:
    made = client.exec_create(container, list(command), stderr=False)
    return client.exec_start(made["Id"])


@pytest.mark.parametrize(
    ("profile", "line"),
    [("strict", STOP_ALL_OTHERS), ("compatible", KILL_ALL_OTHERS)],
)
def test_a_container_ends_with_the_killed_process_that_holds_it(
    client: docker.APIClient, run_id: str, profile: str, line: str
):
    process = subprocess.Popen([*ONE_RUN, profile, run_id, line], cwd=ROOT)
    until(lambda: running(client, run_id) != [])
    (container,) = running(client, run_id)
    until(lambda: printed(client, container, "ls", "/build") == b"tried\n")
    assert running(client, run_id) == [container]
    process.send_signal(signal.SIGKILL)
    process.wait()
    until(lambda: running(client, run_id) == [])


def test_what_a_killed_run_left_is_removed_with_it(
    client: docker.APIClient, run_id: str, monkeypatch: pytest.MonkeyPatch
):
    process = subprocess.Popen([*ONE_RUN, "strict", run_id, "sleep 600"], cwd=ROOT)
    until(lambda: running(client, run_id) != [])
    process.kill()
    process.wait()

    with monkeypatch.context() as away:
        away.setenv("DOCKER_HOST", "unix:///nowhere.sock")
        assert "no Docker Engine listens at" in engines.remove_left("docker", run_id)
    assert engines.remove_left("docker", run_id) == ""

    ours = {"label": f"{owner.RUN}={run_id}"}
    assert client.containers(all=True, filters=ours) == []
    assert not client.volumes(filters=ours)["Volumes"]


@pytest.fixture
def kept(client: docker.APIClient, run_id: str) -> Callable[[float], str]:
    """Make a container with a keeper; name it."""

    def made(time_s: float) -> str:
        made = client.create_container(
            IMAGE,
            labels={owner.RUN: run_id},
            **confinement.keeper(Profile.STRICT, time_s),
        )
        return made["Id"]

    return made


def test_a_container_ends_at_its_deadline_though_it_is_held(
    client: docker.APIClient, kept: Callable[[float], str], run_id: str
):
    container = kept(1.0)
    let_go = hold_stdin(client, container)
    client.start(container)
    until(lambda: running(client, run_id) == [])
    let_go()


def test_a_container_that_is_let_go_before_it_starts_ends_at_once(
    client: docker.APIClient, kept: Callable[[float], str], run_id: str
):
    container = kept(600.0)
    hold_stdin(client, container)()
    client.start(container)
    until(lambda: running(client, run_id) == [])


@pytest.mark.slow
def test_a_container_goes_on_while_the_process_that_holds_it_is_stopped(
    client: docker.APIClient, run_id: str
):
    process = subprocess.Popen([*ONE_RUN, "strict", run_id, "sleep 4"], cwd=ROOT)
    until(lambda: running(client, run_id) != [])
    process.send_signal(signal.SIGSTOP)
    time.sleep(3.0)
    assert running(client, run_id) != []
    process.send_signal(signal.SIGCONT)
    assert process.wait(60) == 0
