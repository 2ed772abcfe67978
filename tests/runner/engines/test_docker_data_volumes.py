"""Volumes of data files on a Docker Engine: which are found, and which are removed."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import docker
import pytest
from docker.errors import APIError, NotFound

from runner.core import DataFile, DataMount
from runner.engines.docker import owner
from runner.engines.docker.container import datavolumes
from runner.engines.docker.container.confinement import data_volume
from runner.engines.imagestore import DataVolume

pytestmark = pytest.mark.docker

IMAGE = "debian:bookworm-slim"


@pytest.fixture
def client() -> Iterator[docker.APIClient]:
    client = docker.APIClient()
    yield client
    client.close()


@pytest.fixture
def volume(client: docker.APIClient, tmp_path: Path) -> Iterator[str]:
    """Name a volume of one file that no other run has."""
    content = secrets.token_bytes(1 << 20)
    path = tmp_path / "data.bin"
    path.write_bytes(content)
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    mount = DataMount("/data", (DataFile(path.name, path, md5, len(content), None),))
    labels = owner.labels("test", 600)
    datavolumes.fill(client, IMAGE, (mount,), labels, lambda _: None)
    name = data_volume(mount)
    yield name
    for each in (name, name + datavolumes.FULL):
        with suppress(NotFound):
            client.remove_volume(each)


@pytest.fixture
def user(client: docker.APIClient, volume: str) -> Iterator[str]:
    """Make a container of a run of this process that mounts the volume."""
    host = client.create_host_config(binds=[f"{volume}:/data:ro"])
    made = client.create_container(
        IMAGE, ["true"], labels=owner.labels("test", 600), host_config=host
    )["Id"]
    yield made
    client.remove_container(made, force=True)


def found(client: docker.APIClient, name: str) -> list[DataVolume]:
    return [each for each in datavolumes.found(client) if each.name == name]


def test_a_volume_is_found_with_its_size_and_removed_with_its_mark(client, volume):
    (one,) = found(client, volume)
    assert one.size_bytes >= 1 << 20

    datavolumes.remove(client, [one])
    datavolumes.remove(client, [one])

    names = {each["Name"] for each in client.volumes()["Volumes"]}
    assert not {volume, volume + datavolumes.FULL} & names
    assert found(client, volume) == []


def test_a_volume_that_a_run_uses_stays_and_counts_as_filled(client, volume, user):
    (one,) = found(client, volume)
    assert one.used

    datavolumes.remove(client, [one])

    names = {each["Name"] for each in client.volumes()["Volumes"]}
    assert {volume, volume + datavolumes.FULL} <= names
    with pytest.raises(APIError, match="in use"):
        client.remove_volume(volume)
