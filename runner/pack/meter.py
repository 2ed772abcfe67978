"""Count what a tar stream holds as it passes, and stop it over a ceiling.

It passes without the rights of other users (setuid, setgid), which a program may have
given to its files, and which another reader of the archive might bring back.
"""

from __future__ import annotations

import re
import tarfile
from pathlib import Path
from typing import Self

from runner.core import Problem, Reason
from runner.core.errors import EngineError, RaiError
from runner.core.work import BUILD, Caps
from runner.pack.write import Compressed
from runner.system import files

BLOCK = tarfile.BLOCKSIZE
METADATA_BYTES = 1 << 20
"""More than a long name needs; a reader holds it in memory."""

_EXTENDED = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
_METADATA = (*_EXTENDED, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_SPECIAL_RIGHTS = 0o7000
_MODE, _SUM = slice(100, 108), slice(148, 156)

# Records that override the size in a member's header.
_RESIZES = re.compile(rb"(?:^|\n)\d+ (?:size|GNU\.sparse[^=]*)=")


class DamagedError(ValueError):
    """The stream is not a tar archive, or readers could disagree about it."""


class OverCapsError(ValueError):
    """The stream exceeds a ceiling."""


class ArchiveMeter:
    """Follow a stream in chunks of any size; count bytes, whatever headers claim."""

    def __init__(self, caps: Caps) -> None:
        self.raw_bytes = 0
        self.members = 0
        self._caps = caps
        self._ended = False
        self._head = bytearray()
        self._data_left = 0
        self._extended: bytearray | None = None
        self._plain: list[tuple[int, bytes]] = []  # headers that end there in a piece

    @property
    def whole(self) -> bool:
        """Whether the stream may end here."""
        return self._ended or not (self._head or self._data_left)

    def feed(self, chunk: bytes) -> bytes:
        """Read the next piece; return what passes, but for a header that is cut."""
        begun = bytes(self._head)
        self._plain.clear()
        self.raw_bytes += len(chunk)
        if self.raw_bytes > self._caps.total_bytes:
            raise OverCapsError(f"holds more than {self._caps.total_bytes:,} bytes")
        at = 0
        while at < len(chunk) and not self._ended:
            at += self._data(chunk, at) if self._data_left else self._start(chunk, at)
        passing = begun + chunk if begun else chunk
        if self._plain:
            changed = bytearray(passing)
            for end, head in self._plain:
                at = end + len(begun)
                changed[at - BLOCK : at] = head
            passing = bytes(changed)
        return passing[: len(passing) - len(self._head)] if self._head else passing

    def _data(self, chunk: bytes, at: int) -> int:
        step = min(self._data_left, len(chunk) - at)
        if self._extended is not None:
            self._extended += chunk[at : at + step]
        self._data_left -= step
        if self._extended is not None and not self._data_left:
            if _RESIZES.search(self._extended):
                raise DamagedError("has a member of two sizes")
            self._extended = None
        return step

    def _start(self, chunk: bytes, at: int) -> int:
        piece = chunk[at : at + BLOCK - len(self._head)]
        self._head += piece
        if len(self._head) == BLOCK:
            self._ended = not any(self._head)
            if not self._ended and (plain := self._member(bytes(self._head))):
                self._plain.append((at + len(piece), plain))
            self._head.clear()
        return len(piece)

    def _member(self, head: bytes) -> bytes | None:
        """Count a member; return its header if that has to be another one."""
        try:
            info = tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
        except tarfile.TarError as error:
            raise DamagedError("is not a tar archive, or damaged") from error
        if info.size < 0 or info.type == tarfile.GNUTYPE_SPARSE:
            raise DamagedError(f"has a member of unclear size, {info.name!r}")
        padded = info.size + -info.size % BLOCK
        if info.type in _METADATA:
            if info.size > METADATA_BYTES:
                raise OverCapsError("has a name without end")
            self._data_left = padded
            self._extended = bytearray() if info.type in _EXTENDED else None
            return None
        self.members += 1
        if self.members > self._caps.members:
            raise OverCapsError(f"holds more than {self._caps.members:,} members")
        # Readers of tar ignore the size of links, folders and devices.
        if info.isreg() or info.type not in tarfile.SUPPORTED_TYPES:
            if info.size > self._caps.file_bytes:
                raise OverCapsError(f"has too large a file, {info.name!r}")
            self._data_left = padded
        if not info.mode & _SPECIAL_RIGHTS:
            return None
        plain = bytearray(head)
        plain[_MODE] = b"%07o\0" % (info.mode & ~_SPECIAL_RIGHTS & 0o7777777)
        plain[_SUM] = b" " * 8
        plain[_SUM] = b"%06o\0 " % sum(plain)
        return bytes(plain)


class BuildWriter:
    """Keep a raw tar stream (root ``build/``) as a .tar.zst; use as a context manager.

    Nothing is kept as setuid or setgid.

    The file exists after a clean exit if something was written; after an exception it
    does not. ``write`` raises RaiError (disk_limit) over the ceilings and EngineError
    if the stream is not a tar archive; the exit does if the stream was cut short.
    """

    def __init__(self, path: Path, caps: Caps = BUILD) -> None:
        self.size_bytes = 0
        self._path = path
        self._meter = ArchiveMeter(caps)

    @property
    def members(self) -> int:
        """The number of files, folders and links so far."""
        return self._meter.members

    @property
    def raw_bytes(self) -> int:
        """The bytes of the stream so far."""
        return self._meter.raw_bytes

    @property
    def whole(self) -> bool:
        """Whether the stream came to its end."""
        return self._meter.whole

    def __enter__(self) -> Self:
        self._out = files.aside(self._path).open("wb")
        self._compressed = Compressed(self._out)
        return self

    def write(self, chunk: bytes) -> None:
        """Add the next piece of the stream."""
        try:
            chunk = self._meter.feed(chunk)
        except OverCapsError as error:
            hint = (
                "write less to /build, remove what you do not need back, or raise"
                " resources.limits.disk"
            )
            problem = Problem(f"the build folder {error}", hint=hint)
            raise RaiError(problem, reason=Reason.DISK_LIMIT) from error
        except DamagedError as error:
            raise EngineError(f"the archive of the build folder {error}") from error
        self._compressed.write(chunk)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        part = files.aside(self._path)
        try:
            with self._out, self._compressed:
                if kind is None and not self._meter.whole:
                    raise EngineError("the build folder came back cut short")
            if kind is None and self.raw_bytes:
                self.size_bytes = part.stat().st_size
                part.replace(self._path)
        finally:
            part.unlink(missing_ok=True)
