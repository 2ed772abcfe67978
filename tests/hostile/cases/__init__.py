"""The cases, a file for each topic: each has a tuple ``CASES``."""

from __future__ import annotations

from tests.hostile.case import Case
from tests.kit import topics


def by_topic() -> dict[str, tuple[Case, ...]]:
    """Return the cases of each topic."""
    return topics.by_topic(__name__)


def every() -> tuple[Case, ...]:
    """Return all cases, in the order of the table."""
    return tuple(case for cases in by_topic().values() for case in cases)
