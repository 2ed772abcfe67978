"""What differs between two runs as blocks: what is not comparable before any figure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import TypeVar

from runner.core.quantities import brief
from runner.figures.comparison import FigureChange
from runner.figures.statistics import PEAK_MEMORY, amount, percent
from runner.figures.table import cut
from runner.report.blocks import Block, Pairs, Table, filled
from runner.report.diff_nouns import (
    NOT_COMPARABLE,
    Affected,
    DiffedRun,
    Difference,
    InferenceChange,
    ProfileChange,
    ProfileRowChange,
    RunDiff,
)
from runner.report.phrases import date

T = TypeVar("T")
Names = tuple[str, str]

KERNEL = "kernel["
MOST_ROWS, MOST_SPEC_LINES, MOST_FILES = 40, 40, 12
"""So much of a table, of the build file and of the files is shown, if not all."""

MOST_PROFILE_ROWS = 12
MOST_OPS = 12
LONGEST = 32
"""So much of a command's line is in a title."""

MOST_OF_THE_CHANGE = 0.95
"""The share of the sum of all rows' changes that the shown rows of a profile have."""

_SUM = re.compile(r"\b((?:sha256:)?[0-9a-f]{12})[0-9a-f]{28,116}\b")


def blocks(found: RunDiff, *, everything: bool = False) -> list[Block]:
    """Return the blocks; with ``everything`` all rows of all tables, equal ones too."""
    names = (found.before.tag or found.before.id, found.after.tag or found.after.id)
    shown = _Shown(found, names, everything=everything)
    heads = (("before", found.before), ("after", found.after))
    return [
        Pairs(tuple((name, _headline(run)) for name, run in heads)),
        *shown.mismatches(),
        *shown.ended(),
        *shown.figures(list(shown.plain())),
        *shown.inferences(),
        *shown.profiles(),
        Pairs((("verdict", verdict(found)),)),
        *shown.spec(),
        *shown.facts("Project", found.project),
        *shown.files(),
        *shown.facts("Machine and versions", found.surroundings),
        *shown.rest(),
    ]


def measured(found: RunDiff, names: Names) -> list[Block]:
    """Return what is not comparable, the figures, equal ones too, and the profiles.

    Figures of commands that were not measured again are left out, and counted, but the
    most memory of a run stays: it is of all rounds. ``names`` are those of the sides.
    """
    shown = _Shown(found, names, everything=True)
    every = list(shown.plain())
    again = [f for f in every if _sampled(f) or f.metric == PEAK_MEMORY]
    figures = again if any(f.metric != PEAK_MEMORY for f in again) else every
    left = len(every) - len(figures)
    see = f"of commands that ran once: rai diff {found.before.id} {found.after.id}"
    more = [Pairs((("not shown", f"{left} figures {see}"),))] if left else []
    return [
        *shown.mismatches(),
        *shown.figures(figures),
        *_Shown(found, names, everything=False).profiles(),
        *more,
    ]


def verdict(found: RunDiff) -> str:
    """Return what the figures say of the times, in a sentence or two."""
    judged = [one for one in found.figures if one.primary and one.verdict]
    if not judged:
        return "none: no time is in both runs"
    texts = [f"{one.metric}: {one.verdict}" for one in judged[:MOST_ROWS]]
    more = len(judged) - len(texts)
    if len({one.verdict for one in judged}) == 1:
        texts, more = [judged[0].verdict], 0
    if texts == [NOT_COMPARABLE]:
        return NOT_COMPARABLE
    text = "; ".join(texts) + (f"; and {more} more" if more else "")
    return f"{text} ({_samples(found)})"


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


class _Shown:
    """The tables of a comparison, and how many rows are not in them."""

    def __init__(self, found: RunDiff, names: Names, *, everything: bool) -> None:
        self.found, self.names, self.everything = found, names, everything
        self._equal = self._cut = 0

    def _of(self, rows: Sequence[T], same: Callable[[T], bool]) -> list[T]:
        """Return the rows that differ, up to so many; or all of them."""
        if self.everything:
            return list(rows)
        odd = [row for row in rows if not same(row)]
        self._equal += len(rows) - len(odd)
        self._cut += max(len(odd) - MOST_ROWS, 0)
        return odd[:MOST_ROWS]

    def plain(self) -> Iterator[FigureChange]:
        """Yield the metrics but those of kernels, which stand in the profiles."""
        return (one for one in self.found.figures if not one.metric.startswith(KERNEL))

    def mismatches(self) -> Iterator[Block]:
        """Yield what makes figures not comparable, and which."""
        found = self.found.mismatches
        if not found:
            return
        hard = any(one.hard for one in found)
        affected = {each for m in found if m.hard or not hard for each in m.affects}
        words = [each.value for each in Affected if each in affected]
        listed = " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
        title = f"Compare with care: this may explain differences of {listed}"
        if hard:
            some = all(one.command_number for one in found if one.hard)
            whose = "of some commands" if some else "below"
            title = f"Not comparable: the {listed} {whose} say nothing about the code"
        ordered = sorted(found, key=lambda one: not one.hard)
        rows = [
            (m.what, _became(m.before, m.after), m.means)
            for m in self._of(ordered, lambda _: False)
        ]
        heads = ("what", _became(*self.names), "what it means")
        yield Table(title, heads, tuple(rows))

    def ended(self) -> Iterator[Block]:
        """Yield how the runs and their commands ended."""
        ends = self._of(self.found.ends, lambda one: one.same)
        rows: list[tuple[str, ...]] = [
            ("", one.what, one.before, one.after) for one in ends
        ]
        for one in self._of(self.found.commands, lambda c: c.same):
            number = one.after if one.after is not None else one.before
            ended = (one.ended_before, one.ended_after)
            rows.append((str(number), one.command, *(e or "not there" for e in ended)))
        heads = ("#", "command", *self.names)
        if rows:
            yield Table("How they ended", heads, tuple(rows), frozenset({0}))

    def figures(self, every: list[FigureChange]) -> Iterator[Block]:
        """Yield a row for each metric, with intervals where there are samples."""
        found = self._of(every, lambda f: f.same)
        if not found:
            return
        typical = "a typical pair" if self.found.paired else "typical rounds"
        several = any(map(_sampled, found))
        title = f"Figures: medians, and the change of {typical}"
        yield Table(
            title if several else "Figures",
            ("metric", *self.names, "change, 99.5 % interval", "verdict")
            if several
            else ("metric", *self.names, "change"),
            tuple((*_figure(one), *((one.verdict,) * several)) for one in found),
            frozenset({1, 2, 3}),
        )

    def inferences(self) -> Iterator[Block]:
        """Yield a row for each Op Time, for their sum, and for the result."""
        found = self._of(self.found.inferences, lambda i: i.same)
        rows: list[tuple[str, ...]] = []
        last, several = 0, {one.command_number for one in found if one.number > 1}
        for one in found:
            batch = "" if one.batch_size is None else str(one.batch_size)
            head = (str(one.command_number), one.command, one.variant, batch)
            if one.command_number == last:
                head = ("", "", one.variant, batch)
            last = one.command_number
            which = f"{one.number}: " if one.command_number in several else ""
            for what, *cells in _lines(one, everything=self.everything):
                rows.append((*head, which + what, *cells))
                which = "   " if which else ""
                head = ("", "", "", "")
        if rows:
            heads = ("#", "command", "variant", "batch", "what", *self.names, "change")
            right = ("#", "batch", *self.names, "change")
            yield filled("Op Times and results", heads, rows, right)

    def profiles(self) -> Iterator[Block]:
        """Yield the rows of each profile that have most of the change."""
        known = {one.metric: one for one in self.found.figures}
        every = self.found.profiles
        for one in self._of(every, lambda p: all(row.same for row in p.rows)):
            odd = one.rows
            if not self.everything:
                odd = tuple(row for row in one.rows if not row.same)
                self._equal += len(one.rows) - len(odd)
            shown = odd if self.everything else odd[: _until(odd)]
            rows = [_row(row, _kernel(one, row, known)) for row in shown]
            if rest := odd[len(shown) :]:
                rows.append(_row(_summed(f"and {len(rest)} more", rest), None))
            command = cut(one.command, LONGEST, "...")
            title = f"{one.tool}: {one.section} of command {one.command_number},"
            heads = (*self.names, "change", "by", "calls", "verdict", "name")
            if rows:
                table = (f"{title} `{command}`", heads, rows, heads[:5], ("name",))
                yield filled(*table, keep=heads[:5])

    def spec(self) -> Iterator[Block]:
        """Yield the lines in which the build files differ."""
        found = self.found.spec
        if found is None or not found.lines:
            return
        lines = found.lines if self.everything else found.lines[:MOST_SPEC_LINES]
        left = len(found.lines) - len(lines) + found.left_out
        lines = (*lines, f"... and {left} more lines") if left else lines
        yield Table("", ("Build file",), tuple((line,) for line in lines))

    def files(self) -> Iterator[Block]:
        """Yield the files of the projects that differ."""
        found = self.found.files
        if found is None:
            return
        named = {"changed": found.changed, "new": found.added, "gone": found.removed}
        rows = [(what, name) for what, names in named.items() for name in names]
        kept = rows if self.everything else rows[:MOST_FILES]
        if left := len(rows) - len(kept) + found.left_out:
            kept = [*kept, ("", f"and {left} more")]
        if rows:
            yield Table("Files", ("", "name"), tuple(kept))

    def facts(self, title: str, found: Sequence[Difference]) -> Iterator[Block]:
        """Yield facts of both runs, but those that are not comparable for it."""
        named = {one.what for one in self.found.mismatches}
        rest = [one for one in found if self.everything or one.what not in named]
        odd = self._of(rest, lambda one: one.same)
        rows = tuple((one.what, _became(one.before, one.after)) for one in odd)
        if rows:
            yield Table(title, ("what", _became(*self.names)), rows)

    def rest(self) -> Iterator[Block]:
        """Yield how many rows are not shown, and what shows them."""
        parts = [f"{self._equal} equal rows"] if self._equal else []
        parts += [f"{self._cut} rows that differ"] if self._cut else []
        if parts:
            see = f"rai diff {self.names[0]} {self.names[1]} --all"
            yield Pairs((("not shown", f"{' and '.join(parts)}: {see}"),))


def _sampled(one: FigureChange) -> bool:
    return max(one.n_before, one.n_after) > 1


def _figure(one: FigureChange) -> tuple[str, ...]:
    values = [
        "" if v is None else amount(one.metric, v) for v in (one.before, one.after)
    ]
    change = _change(one.before, one.after, one.ratio)
    if one.low is not None and one.high is not None:
        low, high = (percent(x).removesuffix(" %") for x in (one.low, one.high))
        change = f"{change} ({low} to {high})"
    return (one.metric, *values, change)


def _change(
    before: float | None, after: float | None, ratio: float | None = None
) -> str:
    if before is None or after is None:
        return "" if before is after else "new" if before is None else "gone"
    if ratio is None and before:
        ratio = after / before
    return "" if ratio is None else percent(ratio)


def _lines(
    one: InferenceChange, *, everything: bool
) -> Iterator[tuple[str, str, str, str]]:
    times = list(zip_longest(one.op_times_before_s, one.op_times_after_s))
    count = len(times)
    shown = count if everything or count <= MOST_OPS + 1 else MOST_OPS
    for number, (before, after) in enumerate(times[:shown], 1):
        yield f"op {number}", brief(before), brief(after), _change(before, after)
    if count > shown:
        yield f"and {count - shown} more", "", "", ""
    if count > 1:
        every = (one.op_times_before_s, one.op_times_after_s)
        old, new = (sum(each) if each else None for each in every)
        yield "sum", brief(old), brief(new), _change(old, new)
    if everything or one.result_before != one.result_after:
        yield "result", one.result_before, one.result_after, ""


def _until(rows: Sequence[ProfileRowChange]) -> int:
    whole, reached = sum(abs(row.change_s) for row in rows), 0.0
    for count, row in enumerate(rows[:MOST_PROFILE_ROWS], 1):
        reached += abs(row.change_s)
        if reached >= MOST_OF_THE_CHANGE * whole:
            # One row more takes no more space than a line that counts it.
            return count + 1 if len(rows) == count + 1 else count
    return MOST_PROFILE_ROWS


def _kernel(
    of: ProfileChange, row: ProfileRowChange, known: dict[str, FigureChange]
) -> FigureChange | None:
    """Return the metric of a kernel, if it was sampled more than once."""
    keys = (of.command, str(of.command_number))
    named = (known.get(f"{KERNEL}{key}].{row.name}") for key in keys)
    return next((one for one in named if one is not None and _sampled(one)), None)


def _row(row: ProfileRowChange, metric: FigureChange | None) -> tuple[str, ...]:
    before, after = (row.before_s, row.after_s)
    if metric is not None:
        before, after = metric.before, metric.after
    by = (after or 0.0) - (before or 0.0)
    calls = str(row.calls_after)
    if row.calls_before != row.calls_after:
        calls = f"{row.calls_before} -> {row.calls_after}"
    sign = "+" if by > 0 else "-" if by < 0 else ""
    return (
        brief(before),
        brief(after),
        _change(before, after, metric.ratio if metric else None),
        f"{sign}{brief(abs(by))}",
        calls,
        metric.verdict if metric else "",
        row.name,
    )


def _summed(name: str, rest: Sequence[ProfileRowChange]) -> ProfileRowChange:
    before = [row.before_s for row in rest if row.before_s is not None]
    after = [row.after_s for row in rest if row.after_s is not None]
    return ProfileRowChange(
        name,
        sum(before) if before else None,
        sum(after) if after else None,
        sum(row.calls_before for row in rest),
        sum(row.calls_after for row in rest),
    )


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
