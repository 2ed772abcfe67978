"""One problem of a text file or a machine, with its place."""

from __future__ import annotations

import posixpath
from enum import StrEnum

from msgspec import Struct


class Severity(StrEnum):
    """How bad a problem is: an error stops the run, a warning does not."""

    ERROR = "error"
    WARNING = "warning"


class Place(Struct, frozen=True):
    """A spot in a text file; line and column count from 1."""

    file: str
    line: int
    column: int

    @property
    def file_name(self) -> str:
        """The file's name without its folder."""
        return posixpath.basename(self.file)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Problem(Struct, frozen=True):
    """What is wrong, where, and what to do about it."""

    message: str
    place: Place | None = None
    hint: str = ""
    severity: Severity = Severity.ERROR

    @property
    def finding(self) -> str:
        """Return what is wrong and what to do, without place and severity."""
        return f"{self.message}; {self.hint}" if self.hint else self.message

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        kind = "warning: " if self.severity is Severity.WARNING else ""
        return f"{where}{kind}{self.finding}"
