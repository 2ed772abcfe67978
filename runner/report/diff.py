"""Compare two runs: all that differs, as data."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby, islice
from statistics import median

from msgspec.structs import replace

from runner.core import CommandRecord, ProfileRow, ProfileTable, RunRecord
from runner.figures.comparison import Change, Comparison, FigureChange, compare_runs
from runner.figures.statistics import Unit, known, parsed, samples
from runner.figures.table import NetworkFigures, cut, main_part
from runner.report import mismatches
from runner.report.diff_nouns import (
    Affected,
    CommandChange,
    DiffedRun,
    Difference,
    DiffSide,
    FilesChange,
    InferenceChange,
    Mismatch,
    ProfileChange,
    ProfileRowChange,
    RunDiff,
    TextChange,
)
from runner.report.mismatches import (
    BOTH,
    RESULTS,
    TIMES,
    Meaning,
    inputs,
    surroundings,
    unlike,
)
from runner.report.pairs import (
    Networks,
    Pair,
    aligned,
    alike,
    commands,
    identity,
    networks,
    paired,
)
from runner.report.phrases import commit

MOST_NAMED = 1000
"""So many files are named at most."""

AROUND = 2
"""How many equal lines are shown before and after those that differ."""

MOST_READ = 1000
"""Lines after so many are not compared; difflib's time grows with their square."""

MOST_LINES, LONGEST = 200, 200
"""How much is kept: lines, and characters of each."""

_AFFECTED = {
    Unit.SECONDS: Affected.TIMES,
    Unit.BYTES: Affected.MEMORY,
    Unit.SHARE: Affected.RESULTS,
}

Commands = Sequence[Pair[CommandRecord]]


def compared(
    before: RunRecord, after: RunRecord, named: Collection[str] = ()
) -> Comparison:
    """Compare the samples of two runs; ``named`` are the metrics of a gate."""
    return compare_runs(aligned(before, after), after, named=named)


def between(
    before: DiffSide, after: DiffSide, comparison: Comparison | None = None
) -> RunDiff:
    """Return what differs between two runs; it compares their samples if not given."""
    old, new = before.record, after.record
    found = comparison or compared(old, new)
    pairs = commands(old.first_round, new.first_round)
    printed = (networks(old), networks(new))
    odd = _unlike(old, new, *printed)
    summed = old.data_md5.keys() & new.data_md5.keys()
    return RunDiff(
        before=_run(before),
        after=_run(after),
        mismatches=odd,
        commands=command_changes(pairs),
        figures=tuple(changes(old, new, found, odd)),
        paired=found.paired,
        rounds=found.pairs,
        inferences=inference_changes(pairs, *printed),
        profiles=profile_changes(pairs),
        ends=_beside(_ends(old), _ends(new)),
        project=_beside(inputs(old, summed), inputs(new, summed)),
        surroundings=_beside(surroundings(old), surroundings(new)),
        spec=_changed(before.spec, after.spec),
        files=_files(before.files, after.files),
    )


def incomparable(before: RunRecord, after: RunRecord) -> tuple[Mismatch, ...]:
    """Return what makes figures of two runs not comparable."""
    printed = (networks(run, layers=False) for run in (before, after))
    return _unlike(before, after, *printed)


def differences(found: RunDiff) -> tuple[Difference, ...]:
    """Return what differs but times and figures of profilers, one fact after another.

    `rai replay --json` has them.
    """
    ended = [
        Difference(f"command {c.after or c.before}", c.ended_before, c.ended_after)
        for c in found.commands
        if not c.same
    ]
    results = [
        Difference(f"inference {number}", *values)
        for number, one in enumerate(found.inferences, 1)
        if (values := _answers(one))[0] != values[1]
    ]
    first = [one for one in found.ends if one.what in ("state", "reason")]
    others = [one for one in found.ends if one not in first]
    every = (*first, *ended, *results, *others, *found.project, *found.surroundings)
    return tuple(one for one in every if not one.same)


def _unlike(
    before: RunRecord, after: RunRecord, old: Networks, new: Networks
) -> tuple[Mismatch, ...]:
    pairs = commands(before.first_round, after.first_round)
    return (*mismatches.of_runs(before, after), *command_mismatches(pairs, old, new))


def _answers(one: InferenceChange) -> tuple[str, str]:
    """Return the model and the result of an inference in both runs."""
    before = (one.model_before, one.result_before)
    after = (one.model_after, one.result_after)
    return " ".join(filter(None, before)), " ".join(filter(None, after))


def _run(side: DiffSide) -> DiffedRun:
    run = side.record
    reason = run.verdict.reason if run.verdict else None
    return DiffedRun(
        id=run.id,
        tag=side.tag or None,
        project=run.project,
        title=run.title,
        created_at=run.created_at,
        state=run.state.value,
        reason=reason.value if reason else None,
        exit_code=reason.exit_code if reason else None,
        commit=commit(run.git) or None,
    )


def _files(
    before: Mapping[str, str] | None, after: Mapping[str, str] | None
) -> FilesChange | None:
    """Return the files that differ; None if those of a run are not known."""
    if before is None or after is None:
        return None
    added = sorted(after.keys() - before.keys())
    removed = sorted(before.keys() - after.keys())
    both = before.keys() & after.keys()
    edited = sorted(name for name in both if before[name] != after[name])
    left_out = sum(max(len(x) - MOST_NAMED, 0) for x in (added, removed, edited))
    return FilesChange(
        tuple(added[:MOST_NAMED]),
        tuple(removed[:MOST_NAMED]),
        tuple(edited[:MOST_NAMED]),
        left_out,
    )


def _beside(
    before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[Difference, ...]:
    """Return the facts that either run has, in their order; "" where one is absent."""
    names = dict.fromkeys((*before, *after))
    pairs = ((name, before.get(name, ""), after.get(name, "")) for name in names)
    return tuple(Difference(*pair) for pair in pairs if any(pair[1:]))


def _ends(run: RunRecord) -> dict[str, str]:
    """Return how a run ended, and the errors that its programs told."""
    found = run.findings
    return {
        "state": run.state.value,
        "reason": run.verdict.reason.value if run.verdict else "",
        "memory errors": ", ".join(map(str, found.memory_errors)),
        "GPU faults": ", ".join(fault.kind.words for fault in found.gpu_faults),
    }


def _changed(before: str | None, after: str | None) -> TextChange | None:
    """Return the lines that differ, with a few around them, as a unified diff.

    A line is cut after 200 characters, the result after 200 lines; of a long text only
    the first 1,000 lines are compared. None if a text is not known.
    """
    if before is None or after is None:
        return None
    if before == after:
        return TextChange()
    old, new = before.splitlines(), after.splitlines()
    unread = max(len(old), len(new)) - MOST_READ
    found = difflib.unified_diff(
        old[:MOST_READ], new[:MOST_READ], n=AROUND, lineterm=""
    )
    # The first two lines name the texts.
    kept = islice(found, 2, MOST_LINES + 2)
    lines = tuple(cut(line, LONGEST, "...") for line in kept)
    if not lines and unread <= 0:
        lines = ("@@ only the ends of lines differ",)
    return TextChange(lines, sum(1 for _ in found) + max(unread, 0))


def changes(
    before: RunRecord,
    after: RunRecord,
    found: Comparison,
    mismatches: Sequence[Mismatch],
) -> Iterator[FigureChange]:
    """Yield the metrics of both runs, then those of one.

    A metric that a hard mismatch affects gets no other verdict.
    """
    hard = [one for one in mismatches if one.hard]
    numbers = {str(c.index + 1): c.index + 1 for c in after.first_round}
    numbers |= {c.name: c.index + 1 for c in after.first_round if c.name}
    for one in found.metrics:
        reasons = (m.what for m in hard if _affects(m, one.metric, numbers))
        if because := next(reasons, ""):
            yield replace(one, verdict=Change.NOT_COMPARABLE, because=because)
        else:
            yield one
    shared = {one.metric for one in found.metrics}
    old, new = samples(aligned(before, after)), samples(after)
    for name in dict.fromkeys((*old, *new)):
        if name not in shared:
            yield _alone(name, known(old.get(name, ())), known(new.get(name, ())))


def _alone(name: str, old: Sequence[float], new: Sequence[float]) -> FigureChange:
    before, after = (median(each) if each else None for each in (old, new))
    return FigureChange(name, before, after, len(old), len(new))


def _affects(one: Mismatch, metric: str, numbers: dict[str, int]) -> bool:
    name = parsed(metric)
    if _AFFECTED[name.unit] not in one.affects:
        return False
    return one.command_number in (None, numbers.get(name.key))


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


def command_mismatches(
    pairs: Commands, before: Networks, after: Networks
) -> Iterator[Mismatch]:
    """Yield what makes figures of commands not comparable: other work was measured."""
    for gone, new in _replaced(pairs):
        at, texts = new.index + 1, (identity(gone), identity(new))
        means = "its figures are of another command"
        yield Mismatch(f"command {at}", *texts, means, BOTH, True, at)
    for pair in pairs:
        cut = [bool(command and _cut(command)) for command in pair]
        if any(cut):
            was, became = ("cut" if each else "whole" for each in cut)
            means, at = "not all that it printed was read", place(*pair)
            what = f"figures of {named(*pair)}"
            yield Mismatch(what, was, became, means, BOTH, command_number=at)
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
