"""Write a project's archive, compressed on its way: aside first, then renamed."""

from __future__ import annotations

import hashlib
import io
import os
import sys
import tarfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from runner.core import Archive, Problem, Severity
from runner.core.errors import NotAllowedError, UsageError
from runner.core.events import Progress
from runner.core.work import UPLOAD, Caps
from runner.pack.contents import Member, MemberKind, Survey, cannot_read, exceeded
from runner.system import files

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


if sys.version_info >= (3, 14):
    from compression import zstd as zstd
else:
    from backports import zstd as zstd


JOB_BYTES = 8 << 20
"""What one thread compresses at a time. The output does not depend on the threads."""

MOST_THREADS = 4

# Searches back over a whole job: level 3's size, within 4 %, for 4/5 of its work.
_OPTIONS: dict[int, int] = {
    zstd.CompressionParameter.compression_level: 2,
    zstd.CompressionParameter.window_log: JOB_BYTES.bit_length() - 1,
    zstd.CompressionParameter.hash_log: 17,
    zstd.CompressionParameter.job_size: JOB_BYTES,
    zstd.CompressionParameter.nb_workers: min(os.cpu_count() or 1, MOST_THREADS),
}


class Compressed(io.RawIOBase):
    """Write a stream to ``out`` as zstd; ``close`` ends the archive, not ``out``."""

    def __init__(self, out: BinaryIO) -> None:
        self.raw_bytes = 0
        self._sha256 = hashlib.sha256()
        self._out = out
        self._zstd = zstd.ZstdCompressor(options=_OPTIONS)

    @property
    def sha256(self) -> str:
        """The checksum of what was written, uncompressed."""
        return self._sha256.hexdigest()

    def writable(self) -> bool:
        """Whether this can be written to: always."""
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        """Compress the next bytes."""
        view = memoryview(data)
        self._sha256.update(view)
        self._out.write(self._zstd.compress(view))
        self.raw_bytes += view.nbytes
        return view.nbytes

    def close(self) -> None:
        """Write out what is left."""
        if self.closed:
            return
        try:
            self._out.write(self._zstd.flush())
        finally:
            super().close()


PROGRESS_BYTES = 8 << 20
CHUNK = 1 << 20

_TYPES = {
    MemberKind.FILE: tarfile.REGTYPE,
    MemberKind.FOLDER: tarfile.DIRTYPE,
    MemberKind.LINK: tarfile.SYMTYPE,
}

MOST_BYTES, LARGEST_BYTES = 64 << 20, 1 << 20
"""Of all files together, and of one: a larger one takes no time to open."""

SETTLED_NS, COARSE_NS = 10**8, 3 * 10**9
"""A file that changed later than this before it was read may change unseen.

That is seconds on file systems that keep no fractions of a second.
"""

Signature = tuple[int, ...]


def pack(
    survey: Survey, into: Path, caps: Caps = UPLOAD, cache: PackCache | None = None
) -> Generator[Progress, None, Archive]:
    """Write what the survey found; return the Archive. ``cache`` saves reading files.

    The same content gives the same ``sha256``. Raise NotAllowedError over a ceiling,
    UsageError with every file that vanished, changed or cannot be read.
    """
    if over := exceeded(survey, caps):
        raise NotAllowedError(*over)
    part = files.aside(into)
    try:
        with part.open("wb") as file:
            stream = Compressed(file)
            with io.BufferedWriter(stream, CHUNK) as out:
                yield from _members(survey, out, cache)
                out.write(bytes(2 * tarfile.BLOCKSIZE))
                out.flush()
                out.write(bytes(-stream.raw_bytes % tarfile.RECORDSIZE))
        part.replace(into)
    finally:
        part.unlink(missing_ok=True)
    size, members = into.stat().st_size, len(survey.members)
    return Archive(into, stream.sha256, size, stream.raw_bytes, members)


def _members(
    survey: Survey, out: BinaryIO, cache: PackCache | None
) -> Iterator[Progress]:
    total, done, shown = survey.total_bytes, 0, 0
    problems = [p for p in survey.problems if p.severity is Severity.ERROR]
    yield Progress("pack", 0, total)
    for member in survey.members:
        if problem := _add(survey.project, member, out, cache):
            problems.append(problem)
        done += member.size_bytes
        if done - shown >= PROGRESS_BYTES:
            shown = done
            yield Progress("pack", done, total)
    if problems:
        raise UsageError(*problems)
    yield Progress("pack", total, total)


def _add(
    project: Path, member: Member, out: BinaryIO, cache: PackCache | None
) -> Problem | None:
    if member.kind is not MemberKind.FILE:
        out.write(_header(member))
        return None
    if cache is not None and (kept := cache.get(project, member)) is not None:
        out.write(kept)
        return None
    try:
        # A link may have taken the place of a file or a folder since the survey.
        number = files.descriptor(project, member.name)
        with open(number, "rb", buffering=0) as file:  # noqa: PTH123 - a descriptor
            if cache is None or member.size_bytes > LARGEST_BYTES:
                whole = _copy(file, member, out)
            else:
                status, copied = os.fstat(file.fileno()), io.BytesIO()
                if whole := _copy(file, member, copied):
                    cache.keep(member, status, copied.getvalue())
                out.write(copied.getvalue())
    except OSError as error:
        if error.errno in files.FULL:  # the archive's own disk
            raise
        return cannot_read(member.name, error)
    if whole:
        return None
    return Problem(f"{member.name!r} changed while it was packed", hint="try again")


def _copy(file: io.FileIO, member: Member, out: BinaryIO) -> bool:
    """Copy a file; return whether it is still of its size."""
    if os.fstat(file.fileno()).st_size != member.size_bytes:
        return False
    out.write(_header(member))
    left = member.size_bytes
    while left and (piece := file.read(min(left, CHUNK))):
        out.write(piece)
        left -= len(piece)
    out.write(bytes(-member.size_bytes % tarfile.BLOCKSIZE))
    return not left


def _header(member: Member) -> bytes:
    """Return the header: no times, no owners, and only two modes.

    GNU's format keeps names byte for byte.
    """
    info = tarfile.TarInfo(member.name)
    info.type, info.linkname = _TYPES[member.kind], member.target
    info.size = member.size_bytes
    open_to_all = member.executable or member.kind is MemberKind.FOLDER
    info.mode = 0o755 if open_to_all else 0o644
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


class PackCache:
    """The members of small files, headers and padding included, in memory.

    So that of a project that is packed again only what changed is read.
    """

    def __init__(self) -> None:
        self._members: dict[str, tuple[Signature, bytes]] = {}
        self._bytes = 0

    def get(self, project: Path, member: Member) -> bytes | None:
        """Return a file's member if the file is as it was when it was kept."""
        if (found := self._members.get(member.name)) is None:
            return None
        try:
            status = (project / member.name).lstat()
        except OSError:
            return None
        return found[1] if found[0] == _signature(member, status) else None

    def keep(self, member: Member, status: os.stat_result, data: bytes) -> None:
        """Keep a file's member, read when it had this status, if there is room."""
        old = self._members.pop(member.name, None)
        self._bytes -= len(old[1]) if old else 0
        fits = len(data) <= LARGEST_BYTES and self._bytes + len(data) <= MOST_BYTES
        changed = max(status.st_mtime_ns, status.st_ctime_ns)
        least = SETTLED_NS if changed % 10**6 else COARSE_NS
        if fits and time.time_ns() - changed > least:
            self._members[member.name] = _signature(member, status), data
            self._bytes += len(data)


def _signature(member: Member, status: os.stat_result) -> Signature:
    times = status.st_mtime_ns, status.st_ctime_ns
    return (status.st_dev, status.st_ino, status.st_size, *times, member.executable)
