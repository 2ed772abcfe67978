"""What differs between two runs as blocks: what is not comparable before any figure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from runner.report.blocks import Block, Pairs, Table
from runner.report.diff import tables
from runner.report.diff.nouns import (
    NOT_COMPARABLE,
    Affected,
    DiffedRun,
    Difference,
    FilesChange,
    Mismatch,
    RunDiff,
    TextChange,
)
from runner.report.words import date

T = TypeVar("T")

MOST_ROWS, MOST_SPEC_LINES, MOST_FILES = 40, 40, 12
"""So much of a table, of the build file and of the files is shown, if not all."""


class _Sieve:
    """Rows that are shown, and a count of those that are not."""

    def __init__(self, *, everything: bool) -> None:
        self.everything = everything
        self.equal = 0
        self.cut = 0

    def of(
        self, rows: Sequence[T], same: Callable[[T], bool], most: int = MOST_ROWS
    ) -> list[T]:
        """Return the rows that differ, up to so many; or all of them."""
        if self.everything:
            return list(rows)
        odd = [row for row in rows if not same(row)]
        self.equal += len(rows) - len(odd)
        self.cut += max(len(odd) - most, 0)
        return odd[:most]


def blocks(found: RunDiff, *, everything: bool = False) -> list[Block]:
    """Return the blocks; with ``everything`` all rows of all tables, equal ones too."""
    shown = _Sieve(everything=everything)
    names = (found.before.tag or found.before.id, found.after.tag or found.after.id)
    parts: list[Block | None] = [
        Pairs((("before", _headline(found.before)), ("after", _headline(found.after)))),
        _mismatches(found.mismatches, names, shown),
        _ended(found, names, shown),
        *_figures(found, names, shown),
        _inferences(found, names, shown),
        *_profiles(found, names, shown),
        Pairs((("verdict", verdict(found)),)),
        _spec(found.spec, shown),
        _facts("Project", found.project, names, shown),
        _files(found.files, shown),
        _facts("Machine and versions", found.surroundings, names, shown),
        _rest(shown, names),
    ]
    return [block for block in parts if block is not None]


def measured(found: RunDiff, names: tuple[str, str]) -> list[Block]:
    """Return what is not comparable, the figures, equal ones too, and the profiles.

    Figures of commands that were not measured again are left out, and counted.
    ``names`` are those of the sides.
    """
    shown = _Sieve(everything=False)
    every = list(tables.plain(found.figures))
    figures = tables.sampled(every)
    left = len(every) - len(figures)
    see = f"of commands that ran once: rai diff {found.before.id} {found.after.id}"
    parts: list[Block | None] = [
        _mismatches(found.mismatches, names, shown),
        tables.figures(figures, names, paired=found.paired) if figures else None,
        *_profiles(found, names, shown),
        Pairs((("not shown", f"{left} figures {see}"),)) if left else None,
    ]
    return [block for block in parts if block is not None]


def verdict(found: RunDiff) -> str:
    """Return what the figures say of the times, in a sentence or two."""
    told = [one for one in found.figures if one.primary and one.verdict]
    if not told:
        return "none: no time is in both runs"
    texts = [f"{one.metric}: {one.verdict}" for one in told[:MOST_ROWS]]
    more = len(told) - len(texts)
    if len({one.verdict for one in told}) == 1:
        texts, more = [told[0].verdict], 0
    if texts == [NOT_COMPARABLE]:
        return NOT_COMPARABLE
    said = "; ".join(texts) + (f"; and {more} more" if more else "")
    return f"{said} ({_samples(found)})"


def _samples(found: RunDiff) -> str:
    apart = "" if found.paired else "; measured at different times"
    if found.rounds <= 1:
        return "one sample a side; `rai bench` and `rai run --repeat N` take more"
    turns = "pairs" if found.paired else "rounds a side"
    return f"{found.rounds} {turns}{apart}"


def _headline(run: DiffedRun) -> str:
    ended = run.reason or run.state
    parts = (
        f"run {run.id}" + (f" ({run.tag})" if run.tag else ""),
        ended.replace("_", " ") + (f", exit {run.exit_code}" if run.exit_code else ""),
        date(run.created_at),
        f"commit {run.commit}" if run.commit else "",
        run.title,
        run.project,
    )
    return ", ".join(filter(None, parts))


def _mismatches(
    found: Sequence[Mismatch], names: tuple[str, str], shown: _Sieve
) -> Block | None:
    if not found:
        return None
    hard = any(one.hard for one in found)
    affected = {each for one in found if one.hard or not hard for each in one.affects}
    what = _listed([each.value for each in Affected if each in affected])
    title = f"Compare with care: this may explain differences of {what}"
    if hard:
        some = all(one.command_number for one in found if one.hard)
        whose = "of some commands" if some else "below"
        title = f"Not comparable: the {what} {whose} say nothing about the code"
    ordered = sorted(found, key=lambda one: not one.hard)
    listed = shown.of(ordered, lambda _: False)
    rows = tuple((m.what, _became(m.before, m.after), m.means) for m in listed)
    return Table(title, ("what", _became(*names), "what it means"), rows)


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _ended(found: RunDiff, names: tuple[str, str], shown: _Sieve) -> Block | None:
    ends = shown.of(found.ends, lambda one: one.same)
    rows = [("", one.what, one.before, one.after) for one in ends]
    for one in shown.of(found.commands, lambda c: c.same):
        number = one.after if one.after is not None else one.before
        before = one.ended_before or "not there"
        after = one.ended_after or "not there"
        rows.append((str(number), one.command, before, after))
    heads = ("#", "command", *names)
    return Table("How they ended", heads, tuple(rows), frozenset({0})) if rows else None


def _figures(
    found: RunDiff, names: tuple[str, str], shown: _Sieve
) -> Iterator[Block | None]:
    rows = shown.of(list(tables.plain(found.figures)), lambda f: f.same)
    if rows:
        yield tables.figures(rows, names, paired=found.paired)


def _inferences(found: RunDiff, names: tuple[str, str], shown: _Sieve) -> Block | None:
    rows = shown.of(found.inferences, lambda i: i.same)
    if not rows:
        return None
    first = any(f.n_before > 1 or f.n_after > 1 for f in found.figures)
    return tables.inferences(rows, names, first=first, everything=shown.everything)


def _profiles(found: RunDiff, names: tuple[str, str], shown: _Sieve) -> Iterator[Block]:
    known = {one.metric: one for one in found.figures}
    for one in shown.of(found.profiles, lambda p: all(row.same for row in p.rows)):
        table, same = tables.profile(one, names, known, everything=shown.everything)
        shown.equal += same
        if table.rows:
            yield table


def _spec(found: TextChange | None, shown: _Sieve) -> Block | None:
    if found is None or not found.lines:
        return None
    lines = found.lines if shown.everything else found.lines[:MOST_SPEC_LINES]
    left = len(found.lines) - len(lines) + found.left_out
    if left:
        lines = (*lines, f"... and {left} more lines")
    return Table("", ("Build file",), tuple((line,) for line in lines))


def _files(found: FilesChange | None, shown: _Sieve) -> Block | None:
    if found is None:
        return None
    rows = [
        *(("changed", name) for name in found.changed),
        *(("new", name) for name in found.added),
        *(("gone", name) for name in found.removed),
    ]
    if not rows:
        return None
    kept = rows if shown.everything else rows[:MOST_FILES]
    if left := len(rows) - len(kept) + found.left_out:
        kept = [*kept, ("", f"and {left} more")]
    return Table("Files", ("", "name"), tuple(kept))


def _facts(
    title: str, found: Sequence[Difference], names: tuple[str, str], shown: _Sieve
) -> Block | None:
    odd = shown.of(found, lambda one: one.same)
    rows = tuple((one.what, _became(one.before, one.after)) for one in odd)
    return Table(title, ("what", _became(*names)), rows) if rows else None


def _became(before: str, after: str) -> str:
    """Return both values in one text, which can be wrapped; one if they are equal.

    Checksums are cut if the values differ in what is left.
    """
    one, other = _SUM.sub(r"\1", before), _SUM.sub(r"\1", after)
    if before == after:
        return one
    if one == other:
        one, other = before, after
    return f"{one or 'none'} -> {other or 'none'}"


_SUM = re.compile(r"\b((?:sha256:)?[0-9a-f]{12})[0-9a-f]{28,116}\b")


def _rest(shown: _Sieve, names: tuple[str, str]) -> Block | None:
    parts = [f"{shown.equal} equal rows"] if shown.equal else []
    parts += [f"{shown.cut} rows that differ"] if shown.cut else []
    if not parts:
        return None
    see = f"rai diff {names[0]} {names[1]} --all"
    return Pairs((("not shown", f"{' and '.join(parts)}: {see}"),))
