"""The page that GitHub shows of a job: `$GITHUB_STEP_SUMMARY`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from runner import report
from runner.core import Reason
from runner.markup import markdown
from runner.markup.annotations import Annotation
from runner.markup.reported import ReportedRun

MOST_BYTES = 1024 * 1000
"""GitHub refuses the file of a step if it is over 1024 KiB (FileCommandManager.cs)."""

SHOWN_TAILS = 10


def page(
    runs: Sequence[ReportedRun],
    failures: Sequence[Annotation] = (),
    blocks: Sequence[report.Block] = (),
    *,
    there: int = 0,
) -> str:
    """Return the page of some runs, for a file that has ``there`` bytes already.

    ``failures`` are problems that belong to no command, ``blocks`` what is shown before
    the runs, such as a comparison.
    """
    parts = [*_failures(failures), *map(markdown.block, blocks)]
    for run in runs:
        parts += _run(run)
    return markdown.page(parts, max(0, MOST_BYTES - there))


def _failures(failures: Sequence[Annotation]) -> Iterator[markdown.PagePart]:
    if not failures:
        return
    yield markdown.heading("rai")
    rows = [
        (str(one.place) if one.place else "", one.title, one.text) for one in failures
    ]
    yield markdown.block(report.Table("", ("where", "what", "why"), tuple(rows)))


def _run(run: ReportedRun) -> Iterator[markdown.PagePart]:
    record = run.record
    name = PurePath(record.project).name
    verdict = record.verdict
    how = report.words(verdict.reason) if verdict else record.state.value
    good = verdict is not None and verdict.reason is Reason.DONE
    yield markdown.heading(f"{'✅' if good else '❌'} rai {name}: {how}")
    yield from map(markdown.block, report.of(record, run.tag))
    failed = [c for c in record.commands if run.tail(c)]
    for command in failed[:SHOWN_TAILS]:
        title = f"The end of what command {command.number} printed"
        yield markdown.output(title, run.tail(command))
