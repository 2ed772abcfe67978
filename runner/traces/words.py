"""Values of a file that is not trusted, as bounded words and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from runner.core.trace import TracedGpu

LONGEST_TEXT = 4096
"""Characters of a name or a command line."""

LONGEST_TITLE = 200
"""Characters of what names a lane."""

Facts = tuple[tuple[str, str], ...]
"""What is shown of a span: labels, and the words beside them."""

_GREATEST = 1 << 53
_MEMORY = {
    1: "pageable",
    2: "pinned",
    3: "device",
    4: "array",
    5: "managed",
    6: "static of the device",
    7: "static, managed",
}
"""CUPTI's kinds of memory."""


class LaunchShape(NamedTuple):
    """The configuration of a launch, with any values that a file may have."""

    gpu: object
    grid: Sequence[object]
    block: Sequence[object]
    registers: object
    static_shared: object
    dynamic_shared: object

    def facts(self) -> Facts:
        """Return what is shown of it."""
        of_dynamic = "shared memory"
        if self.static_shared is not None:
            of_dynamic = "dynamic shared memory"
        found = (
            ("grid", " x ".join(map(str, triple(self.grid)))),
            ("block", " x ".join(map(str, triple(self.block)))),
            ("registers", spelled(self.registers, "number")),
            ("static shared memory", spelled(self.static_shared, "bytes")),
            (of_dynamic, spelled(self.dynamic_shared, "bytes")),
        )
        return tuple((label, words) for label, words in found if words)


def bounded(value: object, most: int = LONGEST_TEXT) -> str:
    """Return a text of at most ``most`` characters, "" for anything else."""
    if not isinstance(value, str):
        return ""
    return value if len(value) <= most else value[: most - 1] + "…"


def whole(value: object) -> int | None:
    """Return a whole number that is not absurd; None for anything else."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and abs(value) <= _GREATEST:
        return int(value)
    return None


def gpu(
    number: object, name: object, processors: object, major: object, minor: object
) -> TracedGpu:
    """Return a GPU; ``major`` and ``minor`` are its compute capability."""
    first, second = whole(major) or 0, whole(minor) or 0
    made = f"{first}.{second}" if 0 < first < 100 and 0 <= second < 10 else ""
    known = bounded(name, LONGEST_TITLE)
    return TracedGpu(whole(number) or 0, known, made, whole(processors))


def triple(values: Sequence[object]) -> tuple[int, int, int]:
    """Return three whole numbers, 0 for one that is none."""
    x, y, z = (whole(value) or 0 for value in values)
    return x, y, z


def spelled(value: object, how: str) -> str:
    """Write a fact of a span: a "number", "bytes", or a kind of "memory"."""
    number = whole(value)
    if number is None:
        return ""
    if how == "bytes":
        return f"{number:,} bytes"
    if how == "memory":
        return _MEMORY.get(number, "")
    return str(number)
