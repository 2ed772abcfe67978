"""The SQLite index of runs: a table that can always be made again from the records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from runner.model import Reason, RunRecord, State


@dataclass(frozen=True, slots=True)
class Entry:
    """One run, as a listing shows it."""

    id: str
    created_at: float
    ended_at: float | None
    project: str
    state: State
    reason: Reason | None
    engine: str
    exit_code: int | None
    op_time_s: float | None
    correctness: float | None
    synthetic: bool


class Index:
    """An open index; a context manager that closes it."""

    def __enter__(self) -> Self:
        raise NotImplementedError

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        raise NotImplementedError

    def put(self, *records: RunRecord) -> None:
        """Add or replace runs."""
        raise NotImplementedError

    def remove(self, run_id: str) -> None:
        """Forget a run."""
        raise NotImplementedError

    def find(self, prefix: str) -> list[str]:
        """Give the ids that begin so, newest first."""
        raise NotImplementedError

    def latest(self) -> str | None:
        """Give the id of the newest run."""
        raise NotImplementedError

    def list_runs(
        self,
        limit: int | None = None,
        project: str | None = None,
        active: bool | None = None,
    ) -> list[Entry]:
        """Give the runs, newest first; ``active`` True: those not yet ended."""
        raise NotImplementedError


def open_index(path: Path, records: Callable[[], Iterable[RunRecord]]) -> Index:
    """Open the index, making it from ``records()`` where it is absent or unusable."""
    raise NotImplementedError
