"""Make tar streams for the engine piece by piece."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from typing import IO, BinaryIO

from runner.archive.source import below
from runner.core import DataFile
from runner.engines import datafile

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
        yield from datafile.content(file)
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
