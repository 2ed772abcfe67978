"""Read the tables of every profiler, in the order in which they end.

Profilers' tables as comma-separated values: `nvprof --csv` and `ncu --csv`.

A table begins at its header and ends at the first line that is neither a row of it nor
blank. Rows that a log has truncated are lost.
"""

from __future__ import annotations

import csv
import re

from msgspec.structs import replace

from runner.core import KernelCounters, ProfileRow, ProfileTable
from runner.findings import ncu, nvprof
from runner.findings.ncu import NAMES, AddCounters, CounterSums, Dim, size
from runner.findings.sources import SourceReader
from runner.findings.tables import LONGEST_NAME, MOST_ROWS, Add, TableReader
from runner.findings.units import EXPONENTS, UNSIGNED, keep, scaled

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


_SUMMARY = ("Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name")
_TIMED = ("Time", "Avg", "Min", "Max")
_NUMBER = re.compile(UNSIGNED)
_WHOLE = re.compile(r"[0-9]{1,12}")
_KERNEL = "Kernel Name"
_METRIC = ("Metric Name", "Metric Unit", "Metric Value")


class _Form:
    """A table that is being read; ncu's has launches and their counters."""

    def __init__(self, header: list[str]) -> None:
        self._header = header
        self._launches, self.counters = ncu.Launches(), CounterSums()

    def take(self, cells: list[str]) -> bool:
        """Read one row; return False if it is not one."""
        if len(cells) != len(self._header):
            return False
        return self._row(dict(zip(self._header, cells, strict=True)))

    def _row(self, named: dict[str, str]) -> bool:
        raise NotImplementedError

    def tables(self) -> list[ProfileTable]:
        """Return the tables read so far."""
        table = self._launches.table()
        return [table] if table else []

    def _took(self, kernel: str, took_s: float) -> None:
        self._launches.add(kernel, took_s)
        self.counters.took(took_s)


class CsvReader:
    """A reader that hands each table to ``add``, and ncu's counters to ``count``."""

    def __init__(self, add: Add, count: AddCounters) -> None:
        self._add, self._count = add, count
        self._form: _Form | None = None

    @property
    def busy(self) -> bool:
        """Whether a table is open."""
        return self._form is not None

    def read(self, line: str) -> bool:
        """Read one line, cleaned and stripped; return False if it is in no table."""
        if line[:1] == '"' and (form := _opened(cells := _cells(line))) is not None:
            self.close()
            self._form = form
            return True
        if self._form is None or not line:
            return False
        cells = _cells(line)
        if self._form.take(cells):
            return True
        self.close()
        return False

    def close(self) -> None:
        """End the open table; drop it if it has no row."""
        if self._form is not None:
            for table in self._form.tables():
                self._add(table)
            self._count(self._form.counters)
        self._form = None


class _Summary(_Form):
    """nvprof's summary: a header, a row of units, and rows, with or without a Type."""

    def __init__(self, header: list[str]) -> None:
        super().__init__(header)
        self._units: dict[str, str] = {}
        self._sections: dict[str, list[ProfileRow]] = {}

    def _row(self, named: dict[str, str]) -> bool:
        if not self._units:
            self._units = {name: named[name] for name in _TIMED}
            return all(unit in EXPONENTS for unit in self._units.values())
        percent, calls, name = named["Time(%)"], named["Calls"], named["Name"]
        numbers = (percent, *(named[each] for each in _TIMED))
        if not all(map(_NUMBER.fullmatch, numbers)) or not _WHOLE.fullmatch(calls):
            return False
        if float(percent) > 100 or not name:
            return False
        total, *spread = (scaled(named[n], unit) for n, unit in self._units.items())
        name = name[:LONGEST_NAME]
        row = ProfileRow(name, float(percent), total, int(calls), *spread)
        section = named.get("Type") or nvprof.section([row.name])
        keep(self._sections.setdefault(section, []), row, MOST_ROWS)
        return True

    def tables(self) -> list[ProfileTable]:
        return [
            ProfileTable(nvprof.TOOL, section, tuple(rows))
            for section, rows in self._sections.items()
        ]


class _Metrics(_Form):
    """ncu's rows of one metric each; those of a launch share its ID."""

    _last = _counted = ""

    def _row(self, named: dict[str, str]) -> bool:
        metric, unit, value = (named[name] for name in _METRIC)
        launch = named.get("ID", "")
        if not launch or launch != self._counted:
            self._counted = launch
            self.counters.begin(named[_KERNEL], *_shape(named))
        self.counters.add(metric, unit, value)
        if metric in ncu.DURATIONS and (not launch or launch != self._last):
            took_s = ncu.seconds(value, unit)
            if took_s is not None:
                self._took(named[_KERNEL], took_s)
                self._last = launch
        return True


class _Raw(_Form):
    """ncu's rows of one launch each (`--page raw`), after a row of units."""

    def __init__(self, header: list[str]) -> None:
        super().__init__(header)
        self._duration = next((name for name in header if name in ncu.DURATIONS), "")
        self._kept = [name for name in header if name in NAMES]
        self._units: dict[str, str] | None = None

    def _row(self, named: dict[str, str]) -> bool:
        if self._units is None:
            self._units = named
            return not named[_KERNEL]
        self.counters.begin(named[_KERNEL], *_shape(named))
        for name in self._kept:
            self.counters.add(name, self._units[name], named[name])
        if self._duration:
            unit = self._units[self._duration]
            took_s = ncu.seconds(named[self._duration], unit)
            if took_s is not None:
                self._took(named[_KERNEL], took_s)
        return True


def _opened(header: list[str]) -> _Form | None:
    """Return the form of the table that a header opens."""
    if tuple(header) in (_SUMMARY, ("Type", *_SUMMARY)):
        return _Summary(header)
    if _KERNEL not in header:
        return None
    if all(name in header for name in _METRIC):
        return _Metrics(header)
    known = any(name in ncu.DURATIONS or name in NAMES for name in header)
    return _Raw(header) if known else None


def _shape(named: dict[str, str]) -> tuple[Dim | None, Dim | None]:
    """Return a launch's grid and block; None where a version does not print them."""
    return size(named.get("Grid Size", "")), size(named.get("Block Size", ""))


def _cells(line: str) -> list[str]:
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []
