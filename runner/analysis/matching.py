"""Which entries of rai-kernels.json a launch, or a command, belongs to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain
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


def _arguments(command: str, script: str) -> tuple[str, ...] | None:
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
    every = list(entries)
    called = {entry.script: _arguments(command, entry.script) for entry in every}
    found = [
        entry
        for entry in every
        if not entry.script or not command or called[entry.script] is not None
    ]
    exact = [
        entry
        for entry in found
        if not entry.script or entry.arguments in (None, called[entry.script])
    ]
    return exact or found


class WorkIndex:
    """Entries of one command, found by what a trace says of launches."""

    def __init__(self, works: Iterable[KernelWork]) -> None:
        self._found: dict[tuple[str, GridSize | None], list[KernelWork]] = {}
        for work in works:
            alike = self._found.setdefault((_key(work.kernel), work.grid), [])
            # Of more than these nothing would be known: see ``agreed``.
            if len(alike) <= MOST_ALIKE:
                alike.append(work)

    def of(self, launches: KernelLaunches) -> list[KernelWork]:
        """Return what the launches of one kernel in one configuration may be."""
        keys = ((_key(launches.kernel), grid) for grid in (launches.grid, None))
        alike = [self._found.get(key, []) for key in keys]
        return [
            work
            for work in chain(*alike)
            if max(map(len, alike)) <= MOST_ALIKE
            and work.block in (None, launches.block)
            and same(launches.kernel, work.kernel)
        ]


def agreed(
    works: Iterable[KernelWork], value: Callable[[KernelWork], Value]
) -> Value | None:
    """Return a value that all entries have; None if they differ, or there is none."""
    found = set(map(value, works))
    return found.pop() if len(found) == 1 else None


def mean(
    works: Sequence[KernelWork],
    count: int,
    value: Callable[[KernelWork], float | None],
) -> float | None:
    """Return what a launch does on average; None if that is not known.

    Entries that differ are taken together if they are of one command and variant, and
    the number of launches is that of whole inferences.
    """
    if (each := agreed(works, value)) is not None:
        return each
    launches = sum(work.launches for work in works)
    together = agreed(works, lambda w: (w.script, w.arguments, w.variant)) is not None
    known = [n for work in works if (n := value(work)) is not None]
    if not together or count % launches or len(known) < len(works):
        return None
    parts = (w.launches * each for w, each in zip(works, known, strict=True))
    return sum(parts) / launches


def _unquoted(word: str) -> str:
    return word.strip("\"'")


def same(profiled: str, written: str) -> bool:
    """Whether a name that a profiler printed is that of a kernel in the file."""
    (plain, whole), (wanted, wanted_whole) = _parts(profiled), _parts(written)
    if "<" in written and whole != wanted_whole:
        return False
    # One may lack the namespace.
    return (
        plain == wanted
        or plain.endswith(f"::{wanted}")
        or wanted.endswith(f"::{plain}")
    )


def _key(name: str) -> str:
    """Return what names of one kernel have in common: its name in its namespace."""
    return _parts(name)[0].rpartition("::")[2]


@lru_cache(maxsize=4096)
def _parts(name: str) -> tuple[str, str]:
    """Return a function's name without its type, parameters and template arguments.

    The second part has the template arguments, but no spaces.
    """
    plain, whole, depth = [], [], 0
    for letter in _RETURNED.sub("", _ANONYMOUS.sub("", name.strip())):
        if letter == "(" and depth == 0:
            break
        whole.append(letter)
        if letter in "<>":
            depth = max(depth + (1 if letter == "<" else -1), 0)
        elif depth == 0:
            plain.append(letter)
    bare = "".join(plain).strip().removeprefix("::")
    return bare, re.sub(r"\s", "", "".join(whole))
