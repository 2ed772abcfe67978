"""nvprof's and nsys's tables, also where a log has wrapped or cut their rows.

A table begins at its header, title or Type column and ends at the first line that can
be none of its own; blank lines and code fences do not end it, since reports split
tables. Those typed by hand, without calls and average, are no profiler's and are left
out.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec.structs import replace

from runner.core import ProfileRow, ProfileTable
from runner.findings import nsys, nvprof
from runner.findings.kernel_names import (
    LONGEST_NAME,
    joined,
    open_brackets,
    unfinished,
)
from runner.findings.units import keep

MOST_TABLES = 100
"""How many are kept; past it the last one replaces its predecessor."""

MOST_ROWS = 500
"""How many rows a table may hold, kept in the same way."""

_FIRST_LETTERS = frozenset("=*[ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_RULERS = frozenset("`~-")
_FENCE = re.compile(r"(?:```|~~~).*|-[- ]*")
_HEADER_WORDS = re.compile(r"(?:(?:Type|Time(?:\(%\))?|Calls|Avg|Min|Max|Name)\s*)+")
_FRAGMENT = re.compile(
    r"[0-9.]+(?:%|ns|us|ms|s|n|u|m)?(?:\s+[0-9.,]*[0-9.](?:ns|us|ms|s|n|u|m)?)*"
)

_TIMES = re.compile(
    r"[0-9]\.[0-9]+(?:ns|us|ms|s)\b|(?<![\w.])[0-9]+(?:ns|us|ms|s)\b"
    r"|(?<!\S)[0-9](?:[0-9.,]*[0-9])?(?:\s+[0-9](?:[0-9.,]*[0-9])?){2}(?!\S)"
)
"""What no name holds: a time with its unit, or the bare numbers of three columns."""

_RUN_ON = re.compile(r"(?<=\D)[0-9]{1,9}\.[0-9]{1,9}(?:%|(?:ns|us|ms|s)\b)\s.*")
"""The row that follows on the line of a name, as a document joins lines."""

Parse = Callable[[str], ProfileRow | None]


class TableReader:
    """Adds the tables that it reads to ``found``."""

    def __init__(self, found: list[ProfileTable]) -> None:
        self._found = found
        self._tool = ""
        self._section = ""
        self._parse: Parse | None = None
        self._columns: nsys.Columns | None = None
        self._title: str | None = ""
        self._rows: list[ProfileRow] = []
        self._odd = ""
        self._gap = False
        self._unreadable = False

    @property
    def busy(self) -> bool:
        """Whether a table is open."""
        return self._parse is not None

    @property
    def _nvprof(self) -> Parse | None:
        """What reads the rows of the open table, if that is nvprof's."""
        return self._parse if self._tool == nvprof.TOOL else None

    def read(self, line: str) -> None:
        """Take one clean line, stripped."""
        if not line or (line[0] in _RULERS and _FENCE.fullmatch(line)):
            self._pause(line)
        elif (self._odd or line[0] in _FIRST_LETTERS) and self._opens(line):
            return
        elif self._parse is not None:
            self._inside(line, self._parse)

    def close(self) -> None:
        """End the open table; one without a single row is none."""
        if self._rows:
            guess = self._columns.section if self._columns else nvprof.section
            section = self._section or guess([row.name for row in self._rows])
            table = ProfileTable(self._tool, section, tuple(self._rows))
            keep(self._found, table, MOST_TABLES)
        self._rows = []
        self._parse = self._columns = None
        self._odd, self._gap, self._unreadable = "", False, False

    def _open(self, tool: str, section: str, parse: Parse) -> None:
        self.close()
        self._tool, self._section, self._parse = tool, section, parse

    def _pause(self, line: str) -> None:
        self._odd = ""
        self._gap = not line.startswith("-")

    def _opens(self, line: str) -> bool:
        """Take a line that opens a table or names one, with what follows in it."""
        if (labelled := self._label(line)) is not None:
            section, rest = labelled
            parse = self._nvprof or nvprof.row
            if self._nvprof is None or self._section != section:
                self._settle()
                self._open(nvprof.TOOL, section, parse)
            self._inside(rest, parse)
        elif (section_or_header := nvprof.opening(line)) is not None:
            self._open_nvprof(section_or_header)
        elif (columns := nsys.header(line)) is not None:
            self._open_nsys(columns)
        elif (titled := nsys.title(line)) is not None:
            self.close()
            (self._title,) = titled
        else:
            return False
        return True

    def _label(self, line: str) -> tuple[str, str] | None:
        """Find the Type column's label, which may have been cut as well."""
        odd = self._odd
        for whole in (line, odd + line, f"{odd} {line}") if odd else (line,):
            labelled = nvprof.label(whole)
            if labelled is not None and labelled[1]:
                if whole != line:
                    self._odd = ""
                return labelled
        return None

    def _open_nvprof(self, section: str) -> None:
        """Open a section; a header right below a section's name opens nothing new."""
        headed = self._nvprof is not None and not self._rows
        if section or not headed:
            self._open(nvprof.TOOL, section, nvprof.row)

    def _open_nsys(self, columns: nsys.Columns) -> None:
        self.close()
        title, self._title = self._title, ""
        if title is not None:
            self._open(nsys.TOOL, title, columns.row)
            self._columns = columns

    def _inside(self, line: str, parse: Parse) -> None:
        row = self._rejoined(line, parse)
        if row is not None:
            self._add(row)
        elif (row := parse(line)) is not None:
            self._settle()
            self._add(row)
        elif line.isdigit() and self._continues(line):
            self._extend(line)
        elif _FRAGMENT.fullmatch(line) or nvprof.second_half(line):
            self._odd = line
        elif _TIMES.search(line):
            self._odd, self._unreadable = "", True
        elif self._unreadable and not self._gap and line[0] not in "=✱*":
            self._odd = ""
        elif self._continues(line):
            self._extend(line)
            self._odd = ""
        elif not self._rows and (bare := self._nvprof and nvprof.units(line)):
            self._parse = bare
        elif not _HEADER_WORDS.fullmatch(line):
            self._stray(line)

    def _continues(self, line: str) -> bool:
        """Whether a line is more of a wrapped name, whose brackets are still open."""
        if self._gap or not self._rows or not self._numbers_odd():
            return False
        name = self._rows[-1].name
        return unfinished(name) or open_brackets(name + line)

    def _numbers_odd(self) -> bool:
        return not self._odd or _FRAGMENT.fullmatch(self._odd) is not None

    def _stray(self, line: str) -> None:
        """Wait with a line that is nothing; two of them, or a gap, end the table."""
        if self._odd or self._gap or line[0] in "=✱*":
            self.close()
        else:
            self._odd = line

    def _rejoined(self, line: str, parse: Parse) -> ProfileRow | None:
        """Join with the fragment before, if the figures of the whole then agree."""
        if not _FRAGMENT.match(self._odd):
            return None
        wholes = [self._odd + line, f"{self._odd} {line}"]
        if nvprof.second_half(self._odd):
            wholes.append(f"{line} {self._odd}")
        rows = (parse(whole) for whole in wholes)
        return next((row for row in rows if row and self._agrees(row)), None)

    def _agrees(self, row: ProfileRow) -> bool:
        """Whether calls times average is the total, and the percentage fits to it."""
        if row.avg_s is not None:
            slack = row.calls * 1e-9 + 1e-3 * row.total_s
            if abs(row.total_s - row.calls * row.avg_s) > slack:
                return False
        if not self._rows or not self._rows[0].total_s:
            return True
        first = self._rows[0]
        percent = first.percent * row.total_s / first.total_s
        return abs(row.percent - percent) <= 0.1 + 0.01 * percent

    def _settle(self) -> None:
        """Take what stood alone between two rows for the rest of the first's name."""
        if self._odd.isdigit() or not self._numbers_odd():
            self._extend(self._odd)

    def _add(self, row: ProfileRow) -> None:
        name = _RUN_ON.sub("", row.name)
        self._unreadable = name != row.name
        keep(self._rows, replace(row, name=name[:LONGEST_NAME]), MOST_ROWS)
        self._odd, self._gap = "", False

    def _extend(self, text: str) -> None:
        if not text or not self._rows:
            return
        last = self._rows[-1]
        self._rows[-1] = replace(last, name=joined(last.name, text))
