"""Which entries of rai-kernels.json a launch, or a command, belongs to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TypeVar

from runner.core.kernel_shapes import GridSize, KernelWork, LayeredNetwork
from runner.core.trace import KernelLaunches

MOST_ALIKE = 200
"""The most entries of one name and grid that are told apart."""

_OPERATOR = re.compile(r"[;|&()<>]")

Entry = TypeVar("Entry", KernelWork, LayeredNetwork)
Value = TypeVar("Value")

_ANONYMOUS = re.compile(r"\(anonymous namespace\)|<unnamed>|\{anonymous\}")
_RETURNED = re.compile(r"^(?:static )?void ")


def arguments(command: str, script: str) -> tuple[str, ...] | None:
    """Return what follows a program on a command line; None if it does not run it.

    The words end at an operator of the shell.
    """
    words = command.split()
    for at, word in enumerate(words):
        if _unquoted(word).rpartition("/")[2] == script:
            rest = words[at + 1 :]
            ends = (n for n, each in enumerate(rest) if _OPERATOR.search(each))
            return tuple(map(_unquoted, rest[: next(ends, len(rest))]))
    return None


def of_command(entries: Iterable[Entry], command: str) -> list[Entry]:
    """Return the entries of a command; of an unknown command all."""
    found = [entry for entry in entries if _runs(entry, command)]
    exact = [entry for entry in found if _as_called(entry, command)]
    return exact or found


class WorkIndex:
    """Entries of one command, found by what a trace says of launches."""

    def __init__(self, works: Iterable[KernelWork]) -> None:
        self._found: dict[tuple[str, GridSize | None], list[KernelWork]] = {}
        for work in works:
            alike = self._found.setdefault((key(work.kernel), work.grid), [])
            # Of more than these nothing would be known: see ``agreed``.
            if len(alike) <= MOST_ALIKE:
                alike.append(work)

    def of(self, launches: KernelLaunches) -> list[KernelWork]:
        """Return what the launches of one kernel in one configuration may be."""
        name = key(launches.kernel)
        alike = [self._found.get((name, grid), []) for grid in (launches.grid, None)]
        if any(len(works) > MOST_ALIKE for works in alike):
            return []
        return [
            work
            for works in alike
            for work in works
            if work.block in (None, launches.block)
            and same(launches.kernel, work.kernel)
        ]


def agreed(
    works: Iterable[KernelWork], value: Callable[[KernelWork], Value]
) -> Value | None:
    """Return a value that all entries have; None if they differ, or there is none."""
    found = list(map(value, works))
    return found[0] if found and found.count(found[0]) == len(found) else None


def alike(works: Sequence[KernelWork]) -> bool:
    """Whether all launches do the same."""
    return all(
        agreed(works, value) is not None or not works
        for value in (lambda w: (w.flops,), lambda w: (w.bytes,))
    )


def mean(
    works: Sequence[KernelWork],
    count: int,
    value: Callable[[KernelWork], float | None],
) -> float | None:
    """Return what a launch does on average; None if that is not known.

    Entries that differ are taken together if they are of one command and variant, and
    the number of launches is that of whole inferences.
    """
    if (same := agreed(works, value)) is not None:
        return same
    values = list(map(value, works))
    launches = sum(work.launches for work in works)
    together = agreed(works, lambda w: (w.script, w.arguments, w.variant)) is not None
    if not together or count % launches:
        return None
    known = [each for each in values if each is not None]
    if len(known) < len(values):
        return None
    parts = (w.launches * each for w, each in zip(works, known, strict=True))
    return sum(parts) / launches


def _runs(entry: Entry, command: str) -> bool:
    if not entry.script or not command:
        return True
    return arguments(command, entry.script) is not None


def _as_called(entry: Entry, command: str) -> bool:
    if not entry.script or entry.arguments is None:
        return True
    return arguments(command, entry.script) == entry.arguments


def _unquoted(word: str) -> str:
    return word.strip("\"'")


def same(profiled: str, written: str) -> bool:
    """Whether a name that a profiler printed is that of a kernel in the file."""
    if profiled == written:
        return True
    plain, wanted = bare(profiled), bare(written)
    if "<" in written and _arguments(profiled) != _arguments(written):
        return False
    return plain == wanted or _ends_with(plain, wanted) or _ends_with(wanted, plain)


def key(name: str) -> str:
    """Return what names of one kernel have in common: its name in its namespace."""
    return bare(name).rpartition("::")[2]


@lru_cache(maxsize=4096)
def bare(name: str) -> str:
    """Return a function's name without its type, template arguments and parameters."""
    text = _RETURNED.sub("", _ANONYMOUS.sub("", name.strip()))
    kept, depth = [], 0
    for letter in text:
        if letter == "<":
            depth += 1
        elif letter == ">":
            depth = max(depth - 1, 0)
        elif letter == "(" and depth == 0:
            break
        elif depth == 0:
            kept.append(letter)
    return "".join(kept).strip().removeprefix("::")


@lru_cache(maxsize=4096)
def _arguments(name: str) -> str:
    """Return a name up to its parameters, without spaces."""
    text, depth = _RETURNED.sub("", _ANONYMOUS.sub("", name.strip())), 0
    for at, letter in enumerate(text):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth <= 0:
            text = text[:at]
            break
    return re.sub(r"\s", "", text)


def _ends_with(long: str, short: str) -> bool:
    """Whether a name in a namespace ends with one that lacks it."""
    return long.endswith(f"::{short}")
