"""Which runs of the index are wanted, and in which order, as SQL. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct

from runner.core import Reason, State

Conditions = list[tuple[str, tuple[object, ...]]]
"""Conditions of SQL, each with its values."""

_FINAL = ", ".join(f"'{state.value}'" for state in State if state.final)
ENDED = f"state IN ({_FINAL})"
ACTIVE = f"state NOT IN ({_FINAL})"
NEWEST = "created_at DESC, id DESC"
OLDEST = "created_at, id"
_TOOK = "max(0, ended_at - created_at)"
_LONGEST_WORD = 4096


class RunOrder(StrEnum):
    """What a listing is sorted by."""

    WHEN = "when"
    TOOK = "took"
    OP_TIME = "op-time"
    SIZE = "size"


_FIGURES = {
    RunOrder.TOOK: (_TOOK, "DESC", "ASC"),
    RunOrder.OP_TIME: ("op_time_s", "ASC", "DESC"),
    RunOrder.SIZE: ("size_bytes", "DESC", "ASC"),
}
"""What is sorted by, and in which direction, usually and reversed."""


class RunQuery(Struct, frozen=True):
    """Which runs are wanted; what is not given does not choose.

    ``active`` selects running or ended ones. ``project`` is the whole path of a
    project, ``project_word`` a part of its folder's name or of what the run is of a
    submission, in upper or lower case. ``branch`` and ``tag`` are patterns with ``*``
    and ``?``, or whole names. ``since`` and ``until`` bound the start of a run, in
    seconds since 1970; it may be at ``since`` and not at ``until``. ``command`` is a
    part of the name or the text of one of its commands.
    """

    active: bool | None = None
    project: str | None = None
    project_word: str | None = None
    branch: str | None = None
    tag: str | None = None
    reasons: frozenset[Reason] = frozenset()
    since: float | None = None
    until: float | None = None
    command: str | None = None

    @property
    def narrowed(self) -> bool:
        """Whether it asks for more than running or ended runs."""
        return self != RunQuery(active=self.active)


def where(query: RunQuery) -> tuple[str, list[object]]:
    """Return the conditions of SQL, without ``WHERE``, and their values."""
    found = _conditions(query)
    return (
        " AND ".join(["1", *(text for text, _ in found)]),
        [value for _, values in found for value in values],
    )


def order(by: RunOrder = RunOrder.WHEN, *, reverse: bool = False) -> str:
    """Return the order in SQL, without ``ORDER BY``.

    The first is the newest, the longest, the fastest or the largest; the last of these
    if reversed. Runs without the figure come last either way, after those whose op time
    stands beside a failure: they may be fast because they are wrong.
    """
    if by is RunOrder.WHEN:
        return OLDEST if reverse else NEWEST
    figure, *directions = _FIGURES[by]
    last = [f"{figure} IS NULL"]
    if by is RunOrder.OP_TIME:
        last.append(f"op_time_s NOT NULL AND reason IS NOT '{Reason.DONE.value}'")
    return f"{', '.join(last)}, {figure} {directions[reverse]}, {NEWEST}"


def _conditions(query: RunQuery) -> Conditions:
    found: Conditions = []

    def add(text: str, *values: Any) -> None:  # noqa: ANN401 - whatever SQLite takes
        found.append((text, values))

    if query.active is not None:
        add(ACTIVE if query.active else ENDED)
    if query.project is not None:
        add("project = ?", query.project)
    if query.project_word is not None:
        word = query.project_word.casefold()[:_LONGEST_WORD]
        add("instr(project_name, ?)", word)
    for name, pattern in (("branch", query.branch), ("tag", query.tag)):
        if pattern is not None:
            add(
                f"{name} != '' AND ({name} = ? OR {name} GLOB ?)",
                pattern,
                _glob(pattern),
            )
    if query.reasons:
        named = sorted(reason.value for reason in query.reasons)
        add(f"reason IN ({', '.join('?' * len(named))})", *named)
    if query.since is not None:
        add("created_at >= ?", query.since)
    if query.until is not None:
        add("created_at < ?", query.until)
    if query.command is not None:
        add("instr(commands, ?)", query.command)
    return found


def _glob(pattern: str) -> str:
    """Return a pattern of SQLite's in which `[` stands for itself."""
    return pattern.replace("[", "[[]")
