"""Write archives: aside first, then renamed."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from types import TracebackType
from typing import Self

from runner.events import Progress
from runner.model import Archive
from runner.pack.caps import BUILD, UPLOAD, Caps
from runner.pack.survey import Survey


def pack(
    survey: Survey, into: Path, caps: Caps = UPLOAD
) -> Generator[Progress, None, Archive]:
    """Write what the survey found; return the Archive.

    The same content gives the same ``sha256``. NotAllowedError over a ceiling;
    UsageError naming every file that vanished, changed or cannot be read.
    """
    raise NotImplementedError
    yield


class BuildWriter:
    """Keep a raw tar stream (root ``build/``) as a .tar.zst; use as a context manager.

    The file is there after a clean exit in which something was written; after an
    exception, nothing is. ``write`` raises RaiError (disk_limit) over the ceilings.
    """

    def __init__(self, path: Path, caps: Caps = BUILD) -> None:
        self.members = 0
        self.raw_bytes = 0
        self.size_bytes = 0

    def __enter__(self) -> Self:
        raise NotImplementedError

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        raise NotImplementedError

    def write(self, chunk: bytes) -> None:
        """Take the next piece of the stream."""
        raise NotImplementedError
