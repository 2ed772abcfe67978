"""What the commands of two runs did and printed, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from runner.core import CommandRecord, ProfileRow, ProfileTable
from runner.figures.commands import main_part
from runner.figures.table import NetworkFigures
from runner.report.diff.mismatches import (
    BOTH,
    RESULTS,
    TIMES,
    Meaning,
    mismatch,
    unlike,
)
from runner.report.diff.nouns import (
    CommandChange,
    InferenceChange,
    Mismatch,
    ProfileChange,
    ProfileRowChange,
)
from runner.report.pairs import Networks, Pair, alike, identity, paired

Commands = Sequence[Pair[CommandRecord]]


def command_changes(pairs: Commands) -> tuple[CommandChange, ...]:
    """Return each command of either run, and how it ended."""
    return tuple(
        CommandChange(
            command=named(one, other),
            before=one.index + 1 if one else None,
            after=other.index + 1 if other else None,
            ended_before=ending(one) if one else "",
            ended_after=ending(other) if other else "",
        )
        for one, other in pairs
    )


def inference_changes(
    pairs: Commands, before: Networks, after: Networks
) -> tuple[InferenceChange, ...]:
    """Return each network that a command of either run printed figures of."""
    return tuple(
        _inference(place(*pair), named(*pair), number, *found)
        for pair in pairs
        for number, found in enumerate(alike(pair, before, after), 1)
    )


def profile_changes(pairs: Commands) -> tuple[ProfileChange, ...]:
    """Return each profiler's table of either run, the most changed rows first."""
    return tuple(
        ProfileChange(
            command_number=place(*pair),
            command=named(*pair),
            tool=table.tool,
            section=table.section,
            rows=_rows(one, other),
        )
        for pair in pairs
        for one, other in _tables(*pair)
        if (table := other or one)
    )


def mismatches(
    pairs: Commands, before: Networks, after: Networks
) -> Iterator[Mismatch]:
    """Yield what makes figures of commands not comparable: other work was measured."""
    for gone, new in _replaced(pairs):
        at, texts = new.index + 1, (identity(gone), identity(new))
        means = "its figures are of another command"
        yield mismatch(f"command {at}", texts, means, BOTH, hard=True, command=at)
    for pair in pairs:
        if any(command and _cut(command) for command in pair):
            cut = ["cut" if c and _cut(c) else "whole" for c in pair]
            means = "not all that it printed was read"
            what = f"figures of {named(*pair)}"
            yield mismatch(what, cut, means, BOTH, command=place(*pair))
        for number, (one, other) in enumerate(alike(pair, before, after), 1):
            if one and other:
                of = f", inference {number} of {named(*pair)}"
                works = (_work(one), _work(other))
                yield from unlike(_MEASURED, *works, of, place(*pair))


def named(one: CommandRecord | None, other: CommandRecord | None) -> str:
    """Return a command's name, else its line; of the later run if that has it."""
    command = other or one
    return (command.name or main_part(command.text)) if command else ""


def place(one: CommandRecord | None, other: CommandRecord | None) -> int:
    """Return a command's number, from 1; that of the later run if that has it."""
    command = other or one
    return command.index + 1 if command else 0


def ending(command: CommandRecord) -> str:
    """Describe how a command ended, with its exit status."""
    how = command.reason.value if command.reason else command.outcome.value
    if command.oom_killed:
        how += ", a process was killed for memory"
    return how if command.exit_code is None else f"{how}, exit {command.exit_code}"


def _replaced(pairs: Commands) -> Iterator[tuple[CommandRecord, CommandRecord]]:
    """Yield the commands without a partner that stand at the same place."""
    gone = {one.index: one for one, other in pairs if one and other is None}
    for one, other in pairs:
        if one is None and other and other.index in gone:
            yield gone[other.index], other


def _cut(command: CommandRecord) -> bool:
    return bool(command.findings.unsearched or command.findings.left_out)


def _inference(
    place: int,
    command: str,
    number: int,
    one: NetworkFigures | None,
    other: NetworkFigures | None,
) -> InferenceChange:
    shown = other or one
    assert shown
    return InferenceChange(
        command_number=place,
        command=command,
        number=number,
        model_before=one.model if one else "",
        model_after=other.model if other else "",
        variant=shown.variant,
        batch_size=shown.images,
        op_times_before_s=_op_times(one),
        op_times_after_s=_op_times(other),
        result_before=one.result if one else "",
        result_after=other.result if other else "",
    )


def _op_times(one: NetworkFigures | None) -> tuple[float, ...]:
    return tuple(each.median for each in one.op_times_s) if one else ()


_MEASURED: dict[str, Meaning] = {
    "batch size": ("times are of another amount of work", BOTH, True),
    "class": ("another accuracy is asked for", BOTH, True),
    "model": ("it is another network", BOTH, True),
    "variant": ("times are of another kernel", TIMES, False),
    "images": ("an agreement is not an accuracy", RESULTS, True),
    "under": ("a profiler's own time is in the times", TIMES, True),
}


def _work(one: NetworkFigures) -> dict[str, str]:
    """Return what the figures are of."""
    return {
        "batch size": str(one.images or ""),
        "class": one.accuracy_class or "usual",
        "model": one.model,
        "variant": one.variant,
        "images": "made up" if one.synthetic else "real",
        "under": ", ".join(one.under),
    }


def _tables(
    one: CommandRecord | None, other: CommandRecord | None
) -> list[Pair[ProfileTable]]:
    return paired(
        one.findings.profiles if one else (),
        other.findings.profiles if other else (),
        lambda t: (t.tool, t.section, t.source.variant, t.source.batch_size),
        lambda t: (t.tool, t.section),
    )


def _rows(
    one: ProfileTable | None, other: ProfileTable | None
) -> tuple[ProfileRowChange, ...]:
    """Return the rows of two tables by name; those of one name as one."""
    old = {row.name: row for row in _summed(one.rows if one else ())}
    new = {row.name: row for row in _summed(other.rows if other else ())}
    rows = [_row(name, old.get(name), new.get(name)) for name in {**new, **old}]
    return tuple(sorted(rows, key=lambda row: -abs(row.change_s)))


def _summed(rows: Sequence[ProfileRow]) -> Iterator[ProfileRow]:
    ordered = sorted(rows, key=lambda row: row.name)
    for name, found in groupby(ordered, key=lambda row: row.name):
        same = list(found)
        total, calls = sum(r.total_s for r in same), sum(r.calls for r in same)
        yield ProfileRow(name, sum(r.percent for r in same), total, calls)


def _row(
    name: str, one: ProfileRow | None, other: ProfileRow | None
) -> ProfileRowChange:
    return ProfileRowChange(
        name=name,
        before_s=one.total_s if one else None,
        after_s=other.total_s if other else None,
        calls_before=one.calls if one else 0,
        calls_after=other.calls if other else 0,
    )
