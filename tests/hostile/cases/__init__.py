"""The cases, a file for each topic: each has a tuple ``CASES``."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.hostile.case import Case

TOPICS = tuple(
    sorted(p.stem for p in Path(__file__).parent.glob("*.py") if p.stem[0] != "_")
)


def by_topic() -> dict[str, tuple[Case, ...]]:
    """Return the cases of each topic."""
    return {name: import_module(f"{__name__}.{name}").CASES for name in TOPICS}


def every() -> tuple[Case, ...]:
    """Return all cases, in the order of the table."""
    return tuple(case for cases in by_topic().values() for case in cases)
