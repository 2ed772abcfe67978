"""Read nvprof's and nsys's tables, also if a document has wrapped their rows.

A table begins at its header, title or Type column and ends at the first line that
cannot be part of it; blank lines and code fences do not end it, since reports split
tables. Tables typed by hand, without calls and average, are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec.structs import replace

from runner.core import ProfileRow, ProfileTable
from runner.findings import nsys, nvprof
from runner.findings.units import keep

MOST_ROWS = 500
"""The most rows of one table; after that the newest replaces the last."""

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

Parse = Callable[[str], ProfileRow | None]
Add = Callable[[ProfileTable], None]

LONGEST_NAME = 1024
"""The number of characters of a kernel's name that are kept."""

_TYPE_AT_END = re.compile(
    r"(?:,|\b(?:const|unsigned|float|double|int|bool|char|long|short|void)"
    r"|\[CUDA(?: Unified(?: Memory)?)?(?: memcpy)?)$"
)


class TableReader:
    """A reader that hands each table to ``add``."""

    def __init__(self, add: Add) -> None:
        self._add_table = add
        self._tool = ""
        self._section = ""
        self._parse: Parse | None = None
        self._columns: nsys.Columns | None = None
        self._title: str | None = ""
        self._rows: list[ProfileRow] = []
        self._half = ""
        self._gap = self._stray = self._unreadable = False

    @property
    def busy(self) -> bool:
        """Whether a table is open."""
        return self._parse is not None

    @property
    def _nvprof(self) -> Parse | None:
        """The parser of the open table's rows, if the table is nvprof's."""
        return self._parse if self._tool == nvprof.TOOL else None

    def read(self, line: str) -> None:
        """Read one line, cleaned and stripped."""
        if not line or (line[0] in _RULERS and _FENCE.fullmatch(line)):
            self._half, self._stray = "", False
            self._gap = not line.startswith("-")
        elif line[0] in _FIRST_LETTERS and self._opens(line):
            return
        elif self._parse is not None:
            self._inside(line, self._parse)

    def close(self) -> None:
        """End the open table; drop it if it has no row."""
        if self._rows:
            guess = self._columns.section if self._columns else nvprof.section
            section = self._section or guess([row.name for row in self._rows])
            table = ProfileTable(self._tool, section, tuple(self._rows))
            self._add_table(table)
        self._rows = []
        self._parse = self._columns = None
        self._half = ""
        self._gap = self._stray = self._unreadable = False

    def _open(self, tool: str, section: str, parse: Parse) -> None:
        self.close()
        self._tool, self._section, self._parse = tool, section, parse

    def _opens(self, line: str) -> bool:
        """Open a table at its first line, and read the row that this may hold.

        Return False for any other line.
        """
        labelled = nvprof.label(line)
        if labelled is not None and labelled[1]:
            section, rest = labelled
            parse = self._nvprof or nvprof.row
            if self._nvprof is None or self._section != section:
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

    def _open_nvprof(self, section: str) -> None:
        """Open a section, unless the line is the header just below a section's name."""
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
        row = parse(line)
        if row is None and self._half:
            row = nvprof.paired(self._half, line)
        if row is not None:
            self._add(row)
        elif self._nvprof is not None and nvprof.half(line):
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
        if not self._rows or not unfinished(self._rows[-1].name):
            return False
        last = self._rows[-1]
        self._rows[-1] = replace(last, name=joined(last.name, line))
        self._half = ""
        return True

    def _other(self, line: str) -> None:
        """Read a line that is not a row: units, or the second such line, the end."""
        if not self._rows and (bare := self._nvprof and nvprof.units(line)):
            self._parse = bare
        elif self._stray or self._gap or line[0] in _ENDS:
            self.close()
        else:
            self._stray = True

    def _add(self, row: ProfileRow) -> None:
        name = _RUN_ON.sub("", row.name)
        keep(self._rows, replace(row, name=name[:LONGEST_NAME]), MOST_ROWS)
        self._half, self._gap, self._stray = "", False, False
        self._unreadable = name != row.name


def joined(name: str, text: str) -> str:
    """Join two parts of a name, with a space if one was lost."""
    space = _TYPE_AT_END.search(name) and (text[:1].isalnum() or text[:1] in "_:")
    return (f"{name} {text}" if space else name + text)[:LONGEST_NAME]


def unfinished(name: str) -> bool:
    """Whether a kernel's name continues below: it has open brackets, or only begins."""
    if len(name) >= LONGEST_NAME:
        return False
    if name == "void" or (name.startswith("void ") and not name.endswith(")")):
        return True
    return any(name.count(a) > name.count(b) for a, b in ("()", "[]", "<>"))
