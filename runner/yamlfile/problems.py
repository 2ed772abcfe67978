"""Collect the problems of a file while it is read."""

from __future__ import annotations

from runner.core import Place, Problem, Severity


class Problems:
    """The problems of one file, in the order in which they were found."""

    def __init__(self) -> None:
        self.found: list[Problem] = []

    def error(self, message: str, place: Place | None, hint: str = "") -> None:
        """Add an error, which makes the file unusable."""
        self.found.append(Problem(message, place, hint))

    def warn(self, message: str, place: Place | None, hint: str = "") -> None:
        """Add a warning."""
        self.found.append(Problem(message, place, hint, Severity.WARNING))

    @property
    def errors(self) -> int:
        """The number of errors."""
        return sum(p.severity is Severity.ERROR for p in self.found)

    @property
    def fatal(self) -> bool:
        """Whether there is an error."""
        return self.errors > 0

    def in_file_order(self) -> list[Problem]:
        """Return the problems sorted by place; those without a place come first."""
        return sorted(self.found, key=_position)


def _position(problem: Problem) -> tuple[int, int]:
    return (problem.place.line, problem.place.column) if problem.place else (0, 0)
