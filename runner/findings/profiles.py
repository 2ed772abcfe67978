"""Read the tables of every profiler, in the order in which they end.

`nvprof --csv` and `ncu --csv` print them as comma-separated values. Such a table begins
at its header and ends at the first line that is neither a row of it nor blank. Rows
that a log has truncated are lost.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator

from msgspec.structs import replace

from runner.core import KernelCounters, ProfileRow, ProfileTable
from runner.findings import ncu
from runner.findings.sources import SourceReader
from runner.findings.tables import LONGEST_NAME, MOST_ROWS, NVPROF, SUMMARY, TableReader
from runner.findings.units import EXPONENTS, keep

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
        self._header: list[str] = []
        self._csv: _Summary | ncu.LaunchTable | None = None

    @property
    def busy(self) -> bool:
        """Whether a table is open."""
        return self._csv is not None or self._tables.busy

    def read(self, line: str) -> None:
        """Read one line, cleaned and stripped."""
        if self._separated(line):
            self._tables.close()
        else:
            self._tables.read(line)

    def _separated(self, line: str) -> bool:
        """Read a line of comma-separated values; return False if it is none."""
        if not line or (self._csv is None and line[0] != '"'):
            return False
        try:
            cells = next(csv.reader([line]), [])
        except csv.Error:
            cells = []
        opened: _Summary | ncu.LaunchTable | None = None
        if line[0] == '"' and tuple(cells[-len(SUMMARY.names) :]) == SUMMARY.names:
            opened = _Summary()
        elif line[0] == '"':
            opened = ncu.opened(cells)
        if opened is not None:
            self._close_csv()
            self._header, self._csv = cells, opened
            return True
        if self._csv is None:
            return False
        if len(cells) == len(self._header) and self._csv.row(
            dict(zip(self._header, cells, strict=True))
        ):
            return True
        self._close_csv()
        return False

    def close(self) -> None:
        """End the open tables; drop those without a row."""
        self._close_csv()
        self._tables.close()

    def _close_csv(self) -> None:
        table, self._csv = self._csv, None
        if table is None:
            return
        if isinstance(table, ncu.LaunchTable):
            table.end()
            self.left_out += table.left_out
            source = self._sources.whole()
            for one in table.counters():
                if len(self.counters) < MOST_COUNTERS:
                    self.counters.append(replace(one, source=source))
                else:
                    self.left_out += 1
        for found in table.tables():
            self._add(found)

    def _add(self, table: ProfileTable) -> None:
        table = replace(table, source=self._sources.whole())
        size = sum(_ROW_SIZE + len(row.name) for row in table.rows)
        limit = MOST_TABLES if self._size + size <= MOST_SIZE else len(self.found)
        left_out = keep(self.found, table, max(limit, 1))
        self.left_out += left_out
        self._size += 0 if left_out else size


class _Summary:
    """nvprof's summary: a row of units, then rows, with or without a Type."""

    def __init__(self) -> None:
        self._columns = SUMMARY
        self._sections: dict[str, list[ProfileRow]] = {}

    def row(self, named: dict[str, str]) -> bool:
        """Read one row; return False if it is not one."""
        if not self._columns.units:
            units = {name: named[name] for name in ("Time", "Avg", "Min", "Max")}
            self._columns = replace(SUMMARY, units=units)
            return EXPONENTS.keys() >= set(units.values())
        row = self._columns.row([named[name] for name in SUMMARY.names])
        if row is None:
            return False
        section = named.get("Type") or self._columns.section([row.name])
        row = replace(row, name=row.name[:LONGEST_NAME])
        keep(self._sections.setdefault(section, []), row, MOST_ROWS)
        return True

    def tables(self) -> Iterator[ProfileTable]:
        """Yield the table of each section."""
        for section, rows in self._sections.items():
            yield ProfileTable(NVPROF, section, tuple(rows))
