"""The page that GitHub shows of a job: `$GITHUB_STEP_SUMMARY`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from msgspec import Struct

from runner import report
from runner.core import Reason, RunRecord
from runner.markup import markdown
from runner.markup.annotations import Annotation
from runner.markup.reported import ReportedRun

MOST_BYTES = 1024 * 1000
"""GitHub refuses the file of a step if it is over 1024 KiB (FileCommandManager.cs)."""

SHOWN_TAILS = 10


class Conclusion(Struct, frozen=True):
    """A comparison or a gate: what came of it in a line, if anything, and tables."""

    title: str
    blocks: tuple[report.Block, ...]


def page(
    runs: Sequence[ReportedRun],
    failures: Sequence[Annotation] = (),
    concluded: Sequence[Conclusion] = (),
    *,
    there: int = 0,
) -> str:
    """Return the page of some runs, for a file that has ``there`` bytes already.

    ``failures`` are problems that belong to no command. What is ``concluded`` comes
    before the runs; several are folded below a title.
    """
    parts = list(_failures(failures))
    for one in concluded:
        parts += [markdown.heading(one.title)] if one.title else []
        parts += map(markdown.block, one.blocks)
    folds = len(runs) > 1 and any(one.title for one in concluded)
    for run in runs:
        name, git = PurePath(run.record.project).name, run.record.git
        if folds:
            name = run.record.title or name
            name += f", {git.commit[:7]}" if git else ""
            parts += markdown.folded(_title(run.record, name), _run(run))
        else:
            parts += [markdown.heading(_title(run.record, name)), *_run(run)]
    return markdown.page(parts, max(0, MOST_BYTES - there))


def _failures(failures: Sequence[Annotation]) -> Iterator[markdown.PagePart]:
    if not failures:
        return
    yield markdown.heading("rai")
    rows = [
        (str(one.place) if one.place else "", one.title, one.text) for one in failures
    ]
    yield markdown.block(report.Table("", ("where", "what", "why"), tuple(rows)))


def _title(record: RunRecord, name: str) -> str:
    verdict = record.verdict
    how = report.words(verdict.reason) if verdict else record.state.value
    good = verdict is not None and verdict.reason is Reason.DONE
    return f"{'✅' if good else '❌'} rai {name}: {how}"


def _run(run: ReportedRun) -> Iterator[markdown.PagePart]:
    record = run.record
    yield from map(markdown.block, report.of(record, run.tag))
    failed = [c for c in record.commands if run.tail(c)]
    for command in failed[:SHOWN_TAILS]:
        title = f"The end of what command {command.number} printed"
        yield markdown.output(title, run.tail(command))
