"""Compare two runs: all that differs, as data."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from runner.comparison import Comparison, compare_runs
from runner.core import RunRecord
from runner.report.diff import facts, figures, measured, mismatches
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
from runner.report.diff.textdiff import changed
from runner.report.pairs import aligned, commands
from runner.report.words import commit

MOST_NAMED = 1000
"""So many files are named at most."""


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
    summed = old.data_md5.keys() & new.data_md5.keys()
    odd = unlike(old, new)
    return RunDiff(
        before=_run(before),
        after=_run(after),
        mismatches=odd,
        commands=measured.command_changes(pairs),
        figures=tuple(figures.changes(old, new, found, odd)),
        paired=found.paired,
        rounds=found.pairs,
        inferences=measured.inference_changes(pairs),
        profiles=measured.profile_changes(pairs),
        ends=facts.beside(facts.ends(old), facts.ends(new)),
        project=facts.beside(facts.inputs(old, summed), facts.inputs(new, summed)),
        surroundings=facts.beside(facts.surroundings(old), facts.surroundings(new)),
        spec=_spec(before.spec, after.spec),
        files=_files(before.files, after.files),
    )


def unlike(before: RunRecord, after: RunRecord) -> tuple[Mismatch, ...]:
    """Return what makes figures of two runs not comparable."""
    pairs = commands(before.first_round, after.first_round)
    return (*mismatches.surroundings(before, after), *measured.mismatches(pairs))


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
    return None if before is None or after is None else changed(before, after)


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
