"""What a server asks of its job host."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from msgspec import Struct

from runner.wire.host import HostAnswer, HostFacts, HostRun, StartRun


class OpenedFile(Struct, frozen=True):
    """A file of a run's folder, open for reading, and its size when it was opened."""

    handle: BinaryIO
    size: int


class JobHost(Protocol):
    """A job host; every call raises BusyError where the host cannot be reached."""

    def facts(self) -> HostFacts:
        """Return what it can do now."""
        ...

    def start(self, request: StartRun, parcel: Path, source: Path) -> HostAnswer:
        """Start a run with its sealed project.

        Returns once the run has its engine and a plan for its image, or was refused.
        """
        ...

    def look(self, ids: Sequence[str]) -> dict[str, HostRun]:
        """Return what is known of runs."""
        ...

    def cancel(self, run_id: str) -> None:
        """Ask a run to end."""
        ...

    def open(self, run_id: str, name: str) -> OpenedFile | None:
        """Open a file of a run's folder; None if there is none."""
        ...

    def remove(self, ids: Sequence[str]) -> None:
        """Remove the folders of runs that have ended."""
        ...

    def clear_gpu(self, uuid: str) -> None:
        """Let runs have a GPU again that was out."""
        ...
