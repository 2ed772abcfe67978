"""Read the tables of every profiler, in the order in which they end."""

from __future__ import annotations

from msgspec.structs import replace

from runner.core import KernelCounters, ProfileTable
from runner.findings.csv_tables import CsvReader
from runner.findings.ncu import CounterSums
from runner.findings.sources import SourceReader
from runner.findings.tables import TableReader
from runner.findings.units import keep

MOST_TABLES = 100
MOST_SIZE = 2 << 20
"""The most that are kept, and about their size as text.

After that the newest replaces the last.
"""

MOST_COUNTERS = 200
"""The most kernels with counters of one output; after that no more are kept."""

_ROW_SIZE = 160
"""A row's numbers."""


class ProfileReader:
    """A reader that collects profilers' tables, line after line."""

    def __init__(self, sources: SourceReader) -> None:
        self.found: list[ProfileTable] = []
        self.counters: list[KernelCounters] = []
        self.left_out = 0
        self._size = 0
        self._sources = sources
        self._tables = TableReader(self._add)
        self._csv = CsvReader(self._add, self._count)

    @property
    def busy(self) -> bool:
        """Whether a table is open."""
        return self._csv.busy or self._tables.busy

    def read(self, line: str) -> None:
        """Read one line, cleaned and stripped."""
        if self._csv.read(line):
            self._tables.close()
        else:
            self._tables.read(line)

    def close(self) -> None:
        """End the open tables; drop those without a row."""
        self._csv.close()
        self._tables.close()

    def _add(self, table: ProfileTable) -> None:
        table = replace(table, source=self._sources.whole())
        size = sum(_ROW_SIZE + len(row.name) for row in table.rows)
        limit = MOST_TABLES if self._size + size <= MOST_SIZE else len(self.found)
        left_out = keep(self.found, table, max(limit, 1))
        self.left_out += left_out
        self._size += 0 if left_out else size

    def _count(self, counted: CounterSums) -> None:
        source = self._sources.whole()
        found = list(counted.found())
        self.left_out += counted.left_out
        for one in found:
            if len(self.counters) < MOST_COUNTERS:
                self.counters.append(replace(one, source=source))
            else:
                self.left_out += 1
