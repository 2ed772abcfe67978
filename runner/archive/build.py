"""Keep the build folder that an engine sends back."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from runner import files
from runner.archive.compressed import Compressed
from runner.archive.meter import ArchiveMeter, DamagedError, OverCapsError
from runner.core import Problem, Reason
from runner.core.caps import BUILD, Caps
from runner.core.errors import EngineError, RaiError


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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        part = files.aside(self._path)
        try:
            with self._out, self._compressed:
                if error is None and not self._meter.whole:
                    raise EngineError("the build folder came back cut short")
            if error is None and self.raw_bytes:
                self.size_bytes = part.stat().st_size
                part.replace(self._path)
        finally:
            part.unlink(missing_ok=True)
