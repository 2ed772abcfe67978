"""Volumes with the project and data files, filled by tar streams."""

from __future__ import annotations

import contextlib
import math
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import IO, Any, BinaryIO

from runner.core import DataFile, DataMount
from runner.core.errors import EngineError
from runner.engines import base
from runner.engines.docker import owner
from runner.engines.docker.attach import upload
from runner.engines.docker.client import (
    CONFLICT,
    FAILURES,
    APIError,
    Client,
    NotFound,
    make_idle,
    remove_container,
    removed,
    seconds,
)
from runner.engines.docker.confinement import DATA, DATA_BYTES, data_mount, data_volume
from runner.pack.data_rules import check_disk
from runner.pack.source import below

BLOCK_BYTES = 1 << 18
END = bytes(2 * tarfile.BLOCKSIZE)


def workspace(
    source: BinaryIO, owner: int, build: BinaryIO | None = None
) -> Iterator[bytes]:
    """Yield the project's tar stream as ``src/...``, and ``build/``.

    The latter is empty without ``build``, the tar stream of a build folder. Every entry
    belongs to the user and group ``owner``.
    """
    yield _folder("build", owner) + _folder("src", owner)
    yield from _members(source, "src", owner, lambda m: m.name not in (".", "/", ""))
    if build is not None:
        yield from _members(build, "build", owner, lambda m: below(m, "build"))
    yield END


def _members(
    stream: BinaryIO,
    folder: str,
    owner: int,
    wanted: Callable[[tarfile.TarInfo], bool],
) -> Iterator[bytes]:
    with tarfile.open(fileobj=stream, mode="r|", bufsize=BLOCK_BYTES) as tar:
        for member in tar:
            if wanted(member):
                yield _moved(member, folder, owner)
                if member.isreg():
                    yield from _content(tar.extractfile(member), member)
            # Else tarfile keeps all past members in memory.
            tar.members.clear()  # type: ignore[attr-defined]


def data_files(files: Iterable[DataFile]) -> Iterator[bytes]:
    """Yield files of this machine as a tar stream, readable by all."""
    for file in files:
        member = tarfile.TarInfo(file.name)
        member.mode, member.size = 0o444, file.size_bytes
        yield member.tobuf(tarfile.PAX_FORMAT)
        yield from base.content(file)
        yield _padding(member)
    yield END


def in_blocks(
    pieces: Iterable[bytes], sent: Callable[[int], None] | None = None
) -> Iterator[bytes]:
    """Join small pieces, since an upload costs time per piece; report each block."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= BLOCK_BYTES:
            yield b"".join(waiting)
            if sent:
                sent(size)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)
        if sent:
            sent(size)


def _folder(name: str, owner: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.type, member.mode = tarfile.DIRTYPE, 0o755
    member.uid = member.gid = owner
    return member.tobuf(tarfile.PAX_FORMAT)


def _moved(member: tarfile.TarInfo, folder: str, owner: int) -> bytes:
    moved = copy(member)  # Python 3.11's first releases have no TarInfo.replace
    moved.name = f"{folder}/{member.name.removeprefix('./')}"
    if member.islnk():
        moved.linkname = f"{folder}/{member.linkname.removeprefix('./')}"
    moved.uid = moved.gid = owner
    moved.uname = moved.gname = ""
    # They contain the old name, which takes precedence over the new one.
    moved.pax_headers = {}
    return moved.tobuf(tarfile.PAX_FORMAT)


def _content(file: IO[bytes] | None, member: tarfile.TarInfo) -> Iterator[bytes]:
    assert file is not None  # a regular file has content
    left = member.size
    while left:
        data = file.read(min(left, BLOCK_BYTES))
        if not data:
            raise OSError(f"{member.name} is {left} bytes shorter than its header says")
        left -= len(data)
        yield data
    yield _padding(member)


def _padding(member: tarfile.TarInfo) -> bytes:
    return bytes(-member.size % tarfile.BLOCKSIZE)


PREFIX = "rai-data-"
FULL = ".full"

WAIT_S = 600.0
LOOK_AGAIN_S = 0.5


def fill(
    client: Client,
    image: str,
    mounts: Sequence[DataMount],
    labels: Mapping[str, str],
    sent: Callable[[int], None],
    most_bytes: float = math.inf,
) -> None:
    """Make and fill the volume of each mount that is missing or incomplete.

    Before, others are removed so that all together have at most ``most_bytes``, as far
    as no container has them.

    Raises:
        ConfigError: the engine's disk is on this machine, and has no room for them.
    """
    there = _there(client)
    for mount in mounts:
        if not _filled(data_volume(mount), there):
            size = sum(file.size_bytes for file in mount.files)
            trim(client, most_bytes - size, spare=mounts)
            folder = Path(client.info()["DockerRootDir"])
            if folder.is_dir():
                check_disk(folder, size)
            _fill(client, image, mount, labels, sent)


def trim(client: Client, most_bytes: float, spare: Sequence[DataMount] = ()) -> None:
    """Remove the oldest volumes that no container has until the rest fits."""
    if math.isinf(most_bytes):
        return
    ours = client.volumes(filters={"label": DATA_BYTES})["Volumes"] or ()
    left = sum(map(_bytes, ours))
    spared = [data_volume(mount) for mount in spare]
    for volume in sorted(ours, key=lambda each: seconds(each["CreatedAt"])):
        if left <= most_bytes:
            return
        if volume["Name"] not in spared and _removed(client, volume["Name"]):
            left -= _bytes(volume)


def _removed(client: Client, name: str) -> bool:
    """Remove a volume that no container has; return whether it is gone."""
    mark = name + FULL
    # First, so that no run takes what is half removed for filled.
    with contextlib.suppress(NotFound):
        client.remove_volume(mark)
    try:
        client.remove_volume(name)
    except NotFound:
        return True
    except FAILURES:
        with contextlib.suppress(*FAILURES):
            client.create_volume(mark, labels={DATA: name.removeprefix(PREFIX)})
        return False
    return True


def _bytes(volume: Mapping[str, Any]) -> int:
    size: str = (volume["Labels"] or {}).get(DATA_BYTES, "")
    return int(size) if size.isdigit() else 0


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
        try:
            helper = _helper(client, image, mount, labels)
            if helper is not None:
                _send(client, helper, mount, sent)
                return
        except BaseException:
            _undo(client, name, labels)
            raise
        if time.monotonic() > until:
            raise EngineError(f"another run did not finish filling the volume {name}")
        sent(0)
        time.sleep(LOOK_AGAIN_S)


def _send(
    client: Client, helper: str, mount: DataMount, sent: Callable[[int], None]
) -> None:
    pieces = in_blocks(data_files(mount.files), sent)
    upload(client, helper, "/data", pieces, sent)
    client.create_volume(data_volume(mount) + FULL, labels={DATA: mount.key})
    remove_container(client, helper)


def _undo(client: Client, name: str, labels: Mapping[str, str]) -> None:
    """Remove a run's own helper, even if only its name is known, and what it filled."""
    helper = f"{name}-filling"
    with contextlib.suppress(*FAILURES):
        with contextlib.suppress(NotFound):
            made = client.inspect_container(helper)
            if (made["Config"]["Labels"] or {}).get(owner.RUN) != labels[owner.RUN]:
                return  # another run fills it
            remove_container(client, made["Id"])
        if removed(client.remove_volume, name + FULL):
            client.remove_volume(name)  # unless a container has it


def _helper(
    client: Client, image: str, mount: DataMount, labels: Mapping[str, str]
) -> str | None:
    """Make the container that receives the files; None if another run has it."""
    name = f"{data_volume(mount)}-filling"
    mounts = [data_mount(mount, "/data", read_only=False)]
    try:
        return make_idle(client, image, name, labels, mounts)
    except APIError as error:
        if error.status_code != CONFLICT:
            raise
        return None
