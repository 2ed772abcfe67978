"""Compare two runs: all that differs, as data."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from itertools import islice

from runner.comparison import Comparison, compare_runs
from runner.core import RunRecord
from runner.report.diff import figures, measured, mismatches
from runner.report.diff.mismatches import inputs, surroundings
from runner.report.diff.nouns import (
    DiffedRun,
    Difference,
    DiffSide,
    FilesChange,
    InferenceChange,
    Mismatch,
    RunDiff,
    TextChange,
)
from runner.report.pairs import Networks, aligned, commands, networks
from runner.report.words import commit

MOST_NAMED = 1000
"""So many files are named at most."""

AROUND = 2
"""How many equal lines are shown before and after those that differ."""

MOST_READ = 1000
"""Lines after so many are not compared; difflib's time grows with their square."""

MOST_LINES, LONGEST = 200, 200
"""How much is kept: lines, and characters of each."""


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
        commands=measured.command_changes(pairs),
        figures=tuple(figures.changes(old, new, found, odd)),
        paired=found.paired,
        rounds=found.pairs,
        inferences=measured.inference_changes(pairs, *printed),
        profiles=measured.profile_changes(pairs),
        ends=_beside(_ends(old), _ends(new)),
        project=_beside(inputs(old, summed), inputs(new, summed)),
        surroundings=_beside(surroundings(old), surroundings(new)),
        spec=_spec(before.spec, after.spec),
        files=_files(before.files, after.files),
    )


def unlike(before: RunRecord, after: RunRecord) -> tuple[Mismatch, ...]:
    """Return what makes figures of two runs not comparable."""
    printed = (networks(run, layers=False) for run in (before, after))
    return _unlike(before, after, *printed)


def _unlike(
    before: RunRecord, after: RunRecord, old: Networks, new: Networks
) -> tuple[Mismatch, ...]:
    pairs = commands(before.first_round, after.first_round)
    found = measured.mismatches(pairs, old, new)
    return (*mismatches.of_runs(before, after), *found)


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


def _spec(before: str | None, after: str | None) -> TextChange | None:
    return None if before is None or after is None else _changed(before, after)


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


def _changed(before: str, after: str) -> TextChange:
    """Return the lines that differ, with a few around them, as a unified diff.

    A line is cut after 200 characters, the result after 200 lines; of a long text only
    the first 1,000 lines are compared.
    """
    if before == after:
        return TextChange()
    old, new = before.splitlines(), after.splitlines()
    unread = max(len(old), len(new)) - MOST_READ
    found = difflib.unified_diff(
        old[:MOST_READ], new[:MOST_READ], n=AROUND, lineterm=""
    )
    lines = tuple(map(_cut, islice(found, 2, MOST_LINES + 2)))  # after the two names
    if not lines and unread <= 0:
        lines = ("@@ only the ends of lines differ",)
    return TextChange(lines, sum(1 for _ in found) + max(unread, 0))


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."
