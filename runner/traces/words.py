"""Values of a file that is not trusted, as bounded words and numbers."""

from __future__ import annotations

from runner.traces.layouts import MEMORY

LONGEST_TEXT = 4096
"""Characters of a name or a command line."""

LONGEST_TITLE = 200
"""Characters of what names a lane."""

_GREATEST = 1 << 53


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


def capability(number: int | None) -> str:
    """Write a compute capability, of which 90 is 9.0."""
    return f"{number // 10}.{number % 10}" if number and 0 < number < 1000 else ""


def triple(values: tuple[object, ...]) -> tuple[int, int, int]:
    """Return three whole numbers, 0 for one that is none."""
    x, y, z = (whole(value) or 0 for value in values)
    return x, y, z


def spelled(value: object, how: str) -> str:
    """Write a fact of a span: a "number", "bytes", a kind of "memory", or a "text"."""
    number = whole(value)
    if how == "text":
        return bounded(value, LONGEST_TITLE)
    if number is None:
        return ""
    if how == "bytes":
        return f"{number:,} bytes"
    if how == "memory":
        return MEMORY.get(number, "")
    return str(number)


def dimensions(values: tuple[int, int, int]) -> str:
    """Write a grid or a block."""
    return " x ".join(map(str, values))
