"""Data files in volumes that are named by their content, filled once and reused."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from runner.core import DataMount
from runner.core.errors import EngineError
from runner.engines.docker import owner
from runner.engines.docker.attach import upload
from runner.engines.docker.client import FAILURES, APIError, Client, NotFound, failing
from runner.engines.docker.container import tarstreams
from runner.engines.docker.container.confinement import data_volume
from runner.engines.imagestore import DataVolume

LABEL = "rai.data"
PREFIX = "rai-data-"
FULL = ".full"
"""The suffix of an empty volume that marks the volume without it as filled."""

CONFLICT = 409
WAIT_S = 600.0
LOOK_AGAIN_S = 0.5


def fill(
    client: Client,
    image: str,
    mounts: Sequence[DataMount],
    labels: Mapping[str, str],
    sent: Callable[[int], None],
) -> None:
    """Make and fill the volume of each mount that is missing or incomplete."""
    there = _there(client)
    for mount in mounts:
        if not _filled(data_volume(mount), there):
            _fill(client, image, mount, labels, sent)


def found(client: Client) -> tuple[DataVolume, ...]:
    """Return the volumes that were filled, with their sizes.

    While a run is on the engine all count as used: it may have looked at a volume and
    not have mounted it yet.
    """
    with failing("list its volumes"):
        ours = client.volumes(filters={"label": LABEL})["Volumes"] or ()
        if not ours:
            return ()
        runs = client.containers(all=True, filters={"label": owner.OWNER})
        usage = {v["Name"]: v["UsageData"] for v in client.df()["Volumes"] or ()}
    known = [v for v in ours if v["Name"] in usage]
    return tuple(
        DataVolume(
            volume["Name"],
            datetime.fromisoformat(volume["CreatedAt"]).timestamp(),
            max(0, usage[volume["Name"]]["Size"]),
            bool(runs) or usage[volume["Name"]]["RefCount"] != 0,
        )
        for volume in known
        if not volume["Name"].endswith(FULL)
    )


def remove(client: Client, volumes: Sequence[DataVolume]) -> None:
    """Remove volumes; one that came into use stays, and counts as filled."""
    for volume in volumes:
        mark = volume.name + FULL
        # First, so that no run takes what is half removed for filled.
        with failing("remove a volume of data files"), contextlib.suppress(NotFound):
            client.remove_volume(mark)
        try:
            client.remove_volume(volume.name)
        except NotFound:
            continue
        except FAILURES:
            key = volume.name.removeprefix(PREFIX)
            with contextlib.suppress(*FAILURES):
                client.create_volume(mark, labels={LABEL: key})


def _there(client: Client) -> set[str]:
    # Not by label: a volume that was made without it counts too.
    found = client.volumes()["Volumes"] or ()
    return {volume["Name"] for volume in found}


def _filled(name: str, there: set[str]) -> bool:
    return {name, name + FULL} <= there


def _fill(
    client: Client,
    image: str,
    mount: DataMount,
    labels: Mapping[str, str],
    sent: Callable[[int], None],
) -> None:
    """Fill one volume, or wait for the run that is filling it.

    The helper container's name is the lock: the engine gives it to one run at a time.
    """
    name = data_volume(mount)
    until = time.monotonic() + WAIT_S
    while not _filled(name, _there(client)):
        helper = _helper(client, image, name, labels)
        if helper is not None:
            _send(client, helper, mount, sent)
            return
        if time.monotonic() > until:
            raise EngineError(f"another run did not finish filling the volume {name}")
        sent(0)
        time.sleep(LOOK_AGAIN_S)


def _send(
    client: Client, helper: str, mount: DataMount, sent: Callable[[int], None]
) -> None:
    try:
        pieces = tarstreams.in_blocks(tarstreams.data_files(mount.files), sent)
        upload(client, helper, "/data", pieces, sent)
        client.create_volume(data_volume(mount) + FULL, labels={LABEL: mount.key})
    finally:
        with contextlib.suppress(*FAILURES):
            client.remove_container(helper, force=True)


def _helper(
    client: Client, image: str, volume: str, labels: Mapping[str, str]
) -> str | None:
    """Make the container that receives the files; None if another run has it."""
    client.create_volume(volume, labels={LABEL: volume.removeprefix(PREFIX)})
    host = client.create_host_config(
        binds=[f"{volume}:/data:nocopy"], network_mode="none"
    )
    try:
        made = client.create_container(
            image,
            name=f"{volume}-filling",
            entrypoint=["/never-started"],
            labels=dict(labels),
            host_config=host,
        )
    except APIError as error:
        if error.status_code != CONFLICT:
            raise
        return None
    identity: str = made["Id"]
    return identity
