"""Keep the build folder that an engine sends back."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from runner import files
from runner.archive.blocks import Blocks
from runner.archive.caps import BUILD, Caps
from runner.archive.meter import DamagedError, Meter, OverCapsError
from runner.core import Problem, Reason
from runner.core.errors import EngineError, RaiError


class BuildWriter:
    """Keep a raw tar stream (root ``build/``) as a .tar.zst; use as a context manager.

    The file is there after a clean exit in which something was written; after an
    exception, nothing is. ``write`` raises RaiError (disk_limit) over the ceilings,
    EngineError where the stream is no archive; the exit does where it was cut short.
    """

    def __init__(self, path: Path, caps: Caps = BUILD) -> None:
        self.size_bytes = 0
        self._path = path
        self._meter = Meter(caps)

    @property
    def members(self) -> int:
        """How many files, folders and links have come."""
        return self._meter.members

    @property
    def raw_bytes(self) -> int:
        """How many bytes of the stream have come."""
        return self._meter.raw_bytes

    def __enter__(self) -> Self:
        self._out = files.aside(self._path).open("wb")
        self._blocks = Blocks(self._out)
        return self

    def write(self, chunk: bytes) -> None:
        """Take the next piece of the stream."""
        try:
            self._meter.feed(chunk)
        except OverCapsError as error:
            hint = "write less to /build, or remove what need not come back"
            problem = Problem(f"the build folder {error}", hint=hint)
            raise RaiError(problem, reason=Reason.DISK_LIMIT) from error
        except DamagedError as error:
            raise EngineError(f"the archive of the build folder {error}") from error
        self._blocks.write(chunk)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        part = files.aside(self._path)
        try:
            with self._out, self._blocks:
                if error is None:
                    self._finish()
            if error is None and self.raw_bytes:
                self.size_bytes = part.stat().st_size
                part.replace(self._path)
        finally:
            part.unlink(missing_ok=True)

    def _finish(self) -> None:
        if not self._meter.whole:
            raise EngineError("the build folder came back cut short")
        self._blocks.finish()
