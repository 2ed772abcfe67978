"""Runs whose container, or whose Docker daemon, is ended by others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest

from runner.engines.docker import owner
from runner.engines.docker.confinement import DATA_BYTES
from tests.kit.daemon import Daemon, daemon, problem
from tests.kit.running import IMAGE, left_on

pytestmark = [pytest.mark.docker, pytest.mark.slow]

ENDS_S = 120.0
SPEC = f"""rai:
  version: 0.2
  image: {IMAGE}
commands:
  build:
    - sh -c 'echo kept > /build/file; echo begun; sleep 600'
"""
DATA_SPEC = f"""rai:
  version: 0.2
  image: {IMAGE}
resources:
  dataresources: [{{mount: /data, source: {{url: "http://127.0.0.1/file"}}}}]
commands:
  build: ["wc -c /data/file"]
"""


@pytest.fixture(scope="module")
def own() -> Iterator[Daemon]:
    if why := problem():
        pytest.skip(f"no daemon of its own: {why}")
    with daemon(IMAGE) as made:
        yield made


def rai(own: Daemon, home: Path, *words: str) -> subprocess.Popen[bytes]:
    env = os.environ | {"DOCKER_HOST": own.url, "RAI_HOME": str(home)}
    return subprocess.Popen(
        [Path(sys.executable).with_name("rai"), *words],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def ended(
    own: Daemon, folder: Path, end: Callable[[docker.APIClient], None]
) -> tuple[int, dict, Path]:
    """Run until the command has begun, call ``end``, and wait for the run's end.

    Returns its exit code, record and folder.
    """
    (folder / "project").mkdir()
    (folder / "project/rai_build.yml").write_text(SPEC)
    words = ["run", "-p", str(folder / "project"), "--engine", "docker"]
    run = rai(own, folder / "home", *words)
    while (line := run.stdout.readline()) != b"begun\n":
        assert line, "the run ended"
    client = own.client()
    end(client)
    run.communicate(timeout=ENDS_S)
    assert left_on(client) == []
    client.close()
    (root,) = (folder / "home/runs").iterdir()
    return run.returncode, json.loads((root / "record.json").read_bytes()), root


def the_container(client: docker.APIClient) -> str:
    (found,) = client.containers(filters={"label": owner.RUN})
    return found["Id"]


@pytest.mark.parametrize(
    "end",
    [
        lambda client: client.kill(the_container(client)),
        lambda client: client.stop(the_container(client), timeout=1),
        lambda client: client.remove_container(the_container(client), force=True),
    ],
    ids=["killed", "stopped", "removed"],
)
def test_the_build_folder_of_a_container_that_another_ends_comes_back(
    own: Daemon, tmp_path: Path, end
):
    code, record, root = ended(own, tmp_path, end)
    assert (code, record["verdict"]["reason"]) == (10, "runner_lost")
    assert "the container ended while" in record["verdict"]["message"]
    assert (root / "stdout.log").read_bytes() == b"begun\n"
    assert (root / "build.tar.zst").exists()


def test_volumes_of_data_files_are_kept_up_to_the_size_of_the_settings_or_in_use(
    own: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RAI_KEEP_SIZE", "3MiB")
    kept: list[set[str]] = []
    users = []
    client = own.client()
    for number in range(4):
        project = tmp_path / f"project{number}"
        (project / "data").mkdir(parents=True)
        (project / "data/file").write_bytes(bytes([number]) * (1 << 20))
        (project / "rai_build.yml").write_text(DATA_SPEC)
        words = ["run", "-p", str(project), "--engine", "docker"]
        run = rai(own, tmp_path / "home", *words)
        said, _ = run.communicate(timeout=ENDS_S)
        assert run.returncode == 0, said
        there = client.volumes(filters={"label": DATA_BYTES})["Volumes"]
        kept.append({volume["Name"] for volume in there})
        if not users:
            (name,) = kept[0]
            host = client.create_host_config(binds=[f"{name}:/data:ro"])
            users.append(client.create_container(IMAGE, ["true"], host_config=host))
    client.remove_container(users[0], force=True)
    assert [len(names) for names in kept] == [1, 2, 3, 3]
    assert kept[0] < kept[3]
    assert left_on(client) == []
    client.close()
