"""Every profiler's tables, in the order in which they end."""

from __future__ import annotations

from runner.logs.tables import TableReader
from runner.model import ProfileTable


class ProfileReader:
    """Collects profilers' tables, line after line."""

    def __init__(self) -> None:
        self.found: list[ProfileTable] = []
        self._tables = TableReader(self.found)

    @property
    def busy(self) -> bool:
        """Whether a table is open."""
        return self._tables.busy

    def read(self, line: str) -> None:
        """Take one clean line, stripped."""
        self._tables.read(line)

    def close(self) -> None:
        """End the open table; one without a single row is none."""
        self._tables.close()
