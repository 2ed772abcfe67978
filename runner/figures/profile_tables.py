"""Read nvprof's and nsys's tables, also if a document has wrapped their rows.

A table begins at its header, title or Type column and ends at the first line that
cannot be part of it; blank lines and code fences do not end it, since reports split
tables. Tables typed by hand, without calls and average, are ignored.

Of nsys (2020 to 2024) only the tables by time are read: those by size have no times,
and NVTX ranges are not times of the GPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from runner.core import ProfileRow, ProfileTable
from runner.figures.sources import EXPONENTS, UNSIGNED, keep, scaled

NVPROF, NSYS = "nvprof", "nsys"
GPU, API_CALLS = "GPU activities", "API calls"
"""nvprof's sections."""

KERNELS, CUDA_API = "GPU kernels", "CUDA API"
MEMORY, RUNTIME = "GPU memory operations (by time)", "OS runtime"
"""What the sections of all versions of nsys are called."""

MOST_ROWS = 500
"""The most rows of one table; after that the newest replaces the last."""

LONGEST_NAME = 1024
"""The number of characters of a kernel's name that are kept."""

_MEANINGS = {
    "percent": ("Time(%)", "Time (%)"),
    "total_s": ("Time", "Total Time"),
    "calls": ("Calls", "Num Calls", "Instances", "Operations", "Count"),
    "avg_s": ("Avg", "Average"),
    "min_s": ("Min", "Minimum"),
    "max_s": ("Max", "Maximum"),
    "": ("Med", "Median", "StdDev", "GridXYZ", "BlockXYZ"),
    "name": ("Name", "Operation"),
}
_FIELDS = {name: field for field, names in _MEANINGS.items() for name in names}
"""The field of a row that each column is."""

_NUMBER = re.compile(rf"({UNSIGNED}(?:e[+-][0-9]{{2}})?)(ns|us|ms|s|%)?")
_SHARES = (
    re.compile(r"[0-9]{1,3}\.[0-9]{2}%"),
    re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,18})?"),
)
"""Percentages where times have their units, and where the columns have."""

_WHOLE = re.compile(r"[0-9]{1,18}")
_API_NAME = re.compile(r"cu(?:da)?[A-Z]\w*")
_CUDA = re.compile(r"cuda|cu[A-Z]")


class Columns(Struct, frozen=True):
    """The columns of one table, and the units of its times.

    ``units`` are by column; the times of a column without one have their own.
    """

    tool: str
    names: tuple[str, ...]
    units: Mapping[str, str] = {}

    def line(self, line: str) -> ProfileRow | None:
        """Parse a printed row."""
        return self.row(line.split(None, len(self.names) - 1))

    def row(self, cells: Sequence[str]) -> ProfileRow | None:
        """Parse a row; None if a column holds something else."""
        if len(cells) != len(self.names) or not cells[-1]:
            return None
        found: dict[str, Any] = {"name": cells[-1]}
        for column, cell in zip(self.names[:-1], cells[:-1], strict=True):
            field = _FIELDS[column]
            match = _NUMBER.fullmatch(cell.replace(",", ""))
            if match is None or (field == "calls" and not _WHOLE.fullmatch(match[0])):
                return None
            own, unit = match[2] or "", self.units.get(column, "")
            if field == "percent":
                if not _SHARES[bool(self.units)].fullmatch(cell):
                    return None
                found[field] = float(match[1])
            elif field == "calls":
                found[field] = int(match[0])
            elif field and (own or unit) in EXPONENTS:
                found[field] = scaled(match[1], own or unit)
            elif field:
                return None
        return ProfileRow(**found) if found["percent"] <= 100 else None

    def section(self, names: Sequence[str]) -> str:
        """Return the section of an untitled table, by its columns and names.

        No function of the API has a space in its name: one was added by the log.
        """
        if self.tool == NVPROF:
            plain = (name.replace(" ", "") for name in names)
            calls = sum(_API_NAME.fullmatch(name) is not None for name in plain)
            return API_CALLS if 2 * calls > len(names) else GPU
        if "Instances" in self.names:
            return KERNELS
        if "Operations" in self.names or "Count" in self.names:
            return MEMORY
        return CUDA_API if _CUDA.match(names[0]) else RUNTIME


SUMMARY = Columns(NVPROF, ("Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name"))
"""nvprof's table."""

_PID = r"(?:=*[0-9]*==\s*)?"
_OPENINGS = {
    GPU: re.compile(rf"{_PID}Profiling result:"),
    API_CALLS: re.compile(rf"{_PID}API calls:"),
    "": re.compile(r"(?:Type\s+)?Time\(%\)\s+Time\s+Calls\s+Avg\s+Min\s+Max\s+Name"),
}
"""The lines that open each section of nvprof's; a header may open any."""

_LABEL = re.compile(r"(GPU activities|API calls|OpenACC \(excl\)|OpenMP \(incl\)):\s*")
_UNITS = re.compile(r"%\s+(ns|us|ms|s)\s+(ns|us|ms|s)(?:\s+\2){2}")
_TIME = r"[0-9]{1,9}(?:\.[0-9]{1,9})?(?:ns|us|ms|s)"
_FIRST_HALF = re.compile(rf"[0-9]{{1,3}}\.[0-9]{{2}}%\s+{_TIME}")
_SECOND_HALF = re.compile(rf"[0-9]{{1,12}}(?:\s+{_TIME}){{3}}\s+\S.*")

_SECTIONS: tuple[tuple[re.Pattern[str], str | None], ...] = (
    (re.compile(r"by size|KiB|mem_?size", re.IGNORECASE), None),
    (re.compile(r"CUDA API (?:Stat|Summ)|cuda_?api_?sum"), CUDA_API),
    (re.compile(r"Kernel (?:Stat|Summ)|gpu_?kern_?sum"), KERNELS),
    (re.compile(r"Memory Operation Stat|MemOps Summ|gpu_?mem_?time_?sum"), MEMORY),
    (re.compile(r"Operating System Runtime|OS Runtime Summ|osrt_?sum"), RUNTIME),
)
"""A pattern for titles of nsys, and the section; the first that matches decides."""

_TITLE = re.compile(
    r"(?:\*\* )?[A-Z][\w/ ()-]{0,60} (?:Statistics|Summary)(?: \([\w/ ]+\))*:?"
    r"|\[[0-9]+/[0-9]+\] Executing '\w+' stats report"
    r"|(?:Processing|Running) \[.{0,400}/reports/\w+\.py.{0,200}"
)
_COLUMN = re.compile(
    rf"(?P<name>{'|'.join(sorted(map(re.escape, _FIELDS), key=len, reverse=True))})"
    r"(?: ?\((?P<unit>ns|us|µs|ms|s|sec)\))?(?:\s+|$)"
)


def _nsys_header(line: str) -> Columns | None:
    """Parse a header of nsys; None for other lines and for tables without times."""
    names: list[str] = []
    unit, end = "ns", 0
    while (match := _COLUMN.match(line, end)) is not None and match.end() > end:
        names += [match["name"]] * (3 if match["name"].endswith("XYZ") else 1)
        unit = match["unit"] or unit
        end = match.end()
    fields = [_FIELDS[name] for name in names]
    whole = names[1:2] == ["Total Time"] and (fields[0], fields[-1]) == (
        "percent",
        "name",
    )
    if end != len(line) or not whole or "calls" not in fields:
        return None
    return Columns(NSYS, tuple(names), dict.fromkeys(names, unit))


_FIRST_LETTERS = frozenset("=*[ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_RULERS = frozenset("`~-")
_ENDS = frozenset("=✱*")
_FENCE = re.compile(r"(?:```|~~~).*|-[- ]*")
_HEADER_WORDS = re.compile(r"(?:(?:Type|Time(?:\(%\))?|Calls|Avg|Min|Max|Name)\s*)+")

_TIMES = re.compile(
    r"[0-9]\.[0-9]+(?:ns|us|ms|s)\b|(?<![\w.])[0-9]+(?:ns|us|ms|s)\b"
    r"|(?<!\S)[0-9](?:[0-9.,]*[0-9])?(?:\s+[0-9](?:[0-9.,]*[0-9])?){2}(?!\S)"
)
"""Text that no name contains: a time with a unit, or the bare numbers of 3 columns."""

_RUN_ON = re.compile(r"(?<=\D)[0-9]{1,9}\.[0-9]{1,9}(?:%|(?:ns|us|ms|s)\b)\s.*")
"""A row that follows a name on its line, as in a document that joins lines."""

_TYPE_AT_END = re.compile(
    r"(?:,|\b(?:const|unsigned|float|double|int|bool|char|long|short|void)"
    r"|\[CUDA(?: Unified(?: Memory)?)?(?: memcpy)?)$"
)


class TableReader:
    """A reader that hands each table to ``add``."""

    def __init__(self, add: Callable[[ProfileTable], None]) -> None:
        self._add_table = add
        self._section = ""
        self._columns: Columns | None = None
        self._title: str | None = ""
        self._rows: list[ProfileRow] = []
        self._half = ""
        self._gap = self._stray = self._unreadable = False

    @property
    def busy(self) -> bool:
        """Whether a table is open."""
        return self._columns is not None

    @property
    def _nvprof(self) -> bool:
        """Whether a table of nvprof is open."""
        return self._columns is not None and self._columns.tool == NVPROF

    def read(self, line: str) -> None:
        """Read one line, cleaned and stripped."""
        if not line or (line[0] in _RULERS and _FENCE.fullmatch(line)):
            self._half, self._stray = "", False
            self._gap = not line.startswith("-")
        elif line[0] in _FIRST_LETTERS and self._opens(line):
            return
        elif self._columns is not None:
            self._inside(line, self._columns)

    def close(self) -> None:
        """End the open table; drop it if it has no row."""
        if self._rows and self._columns is not None:
            named = self._section
            section = named or self._columns.section([row.name for row in self._rows])
            table = ProfileTable(self._columns.tool, section, tuple(self._rows))
            self._add_table(table)
        self._rows = []
        self._columns = None
        self._half = ""
        self._gap = self._stray = self._unreadable = False

    def _open(self, section: str, columns: Columns) -> None:
        self.close()
        self._section, self._columns = section, columns

    def _opens(self, line: str) -> bool:
        """Open a table at its first line, and read the row that this may hold.

        Return False for any other line.
        """
        if (label := _LABEL.match(line)) and (rest := line[label.end() :]):
            columns = self._columns if self._columns and self._nvprof else SUMMARY
            if not self._nvprof or self._section != label[1]:
                self._open(label[1], columns)
            self._inside(rest, columns)
            return True
        for section, form in _OPENINGS.items():
            if form.fullmatch(line):
                # The header just below a section's name opens no other.
                if section or not self._nvprof or self._rows:
                    self._open(section, SUMMARY)
                return True
        if (columns_of_nsys := _nsys_header(line)) is not None:
            self.close()
            title, self._title = self._title, ""
            if title is not None:
                self._open(title, columns_of_nsys)
        elif _TITLE.fullmatch(line):
            self.close()
            found = (name for form, name in _SECTIONS if form.search(line))
            self._title = next(found, None)
        else:
            return False
        return True

    def _inside(self, line: str, columns: Columns) -> None:
        row = columns.line(line)
        if row is None and self._half:
            row = _paired(self._half, line)
        if row is not None:
            name = _RUN_ON.sub("", row.name)
            keep(self._rows, replace(row, name=name[:LONGEST_NAME]), MOST_ROWS)
            self._half, self._gap, self._stray = "", False, False
            self._unreadable = name != row.name
        elif self._nvprof and (
            _FIRST_HALF.fullmatch(line) or _SECOND_HALF.fullmatch(line)
        ):
            self._half = line
        elif _TIMES.search(line):
            self._half, self._unreadable = "", True
        elif not self._name_goes_on(line) and not _HEADER_WORDS.fullmatch(line):
            self._other(line)

    def _name_goes_on(self, line: str) -> bool:
        """Add a line to the last row's name, if that has open brackets."""
        if self._gap or self._stray:
            return False
        if self._unreadable:
            return line[0] not in _ENDS
        if not self._rows or not _unfinished(self._rows[-1].name):
            return False
        last = self._rows[-1]
        space = _TYPE_AT_END.search(last.name) and (
            line[0].isalnum() or line[0] in "_:"
        )
        name = f"{last.name} {line}" if space else last.name + line
        self._rows[-1] = replace(last, name=name[:LONGEST_NAME])
        self._half = ""
        return True

    def _other(self, line: str) -> None:
        """Read a line that is not a row: units, or the second such line, the end."""
        if not self._rows and self._nvprof and (units := _UNITS.fullmatch(line)):
            total, each = units.groups()
            known = {"Time": total, "Avg": each, "Min": each, "Max": each}
            self._columns = replace(SUMMARY, units=known)
        elif self._stray or self._gap or line[0] in _ENDS:
            self.close()
        else:
            self._stray = True


def _paired(one: str, other: str) -> ProfileRow | None:
    """Parse two halves of a row, in either order; None if they do not match.

    They match if the calls times their average is the total.
    """
    halves = (other, one) if _SECOND_HALF.fullmatch(one) else (one, other)
    found = SUMMARY.line(" ".join(halves))
    if found is None or found.avg_s is None:
        return None
    slack = found.calls * 1e-9 + 1e-3 * found.total_s
    agree = abs(found.total_s - found.calls * found.avg_s) <= slack
    return found if agree else None


def _unfinished(name: str) -> bool:
    """Whether a kernel's name continues below: it has open brackets, or only begins."""
    if len(name) >= LONGEST_NAME:
        return False
    if name == "void" or (name.startswith("void ") and not name.endswith(")")):
        return True
    return any(name.count(a) > name.count(b) for a, b in ("()", "[]", "<>"))
