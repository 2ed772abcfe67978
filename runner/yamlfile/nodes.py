"""The nodes of a YAML document, each with its place."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

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


_SHOWN = 60
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


class Scalar(Struct, frozen=True):
    """A value as text.

    ``plain`` is whether it was written without quotes; ``span`` is where it starts and
    ends in the file, quotes included.
    """

    place: Place
    text: str
    plain: bool = True
    span: tuple[int, int] = (0, 0)

    @property
    def null(self) -> bool:
        """Whether YAML reads this as null."""
        return self.plain and self.text in _NULLS


class Sequence(Struct, frozen=True):
    """A list."""

    place: Place
    items: tuple[Node, ...]


class Mapping(Struct, frozen=True):
    """Keys with their values, in the order of the file."""

    place: Place
    entries: tuple[tuple[Scalar, Node], ...]

    def get(self, key: str) -> Node | None:
        """Return the value of a key."""
        return next((value for k, value in self.entries if k.text == key), None)

    def key(self, key: str) -> Scalar | None:
        """Return the key itself, with its place."""
        return next((k for k, _ in self.entries if k.text == key), None)

    def __iter__(self) -> Iterator[str]:
        return (key.text for key, _ in self.entries)


Node = Scalar | Sequence | Mapping


def kind(node: Node) -> str:
    """Return a node's kind for use in a sentence."""
    if isinstance(node, Mapping):
        return "a mapping"
    if isinstance(node, Sequence):
        return "a list"
    text = " ".join(node.text.split())
    return f'"{text}"' if len(text) <= _SHOWN else f'"{text[:_SHOWN]}..."'
