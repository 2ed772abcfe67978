"""Runs as rows of CSV: one a figure of a command, or one a command without any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from runner.core import CommandRecord
from runner.markup import figures, spreadsheet
from runner.markup.reported import ReportedRun
from runner.markup.spreadsheet import Cell

HEADS = (
    *("run", "tag", "date", "project", "commit", "engine", "image", "gpu", "reason"),
    *("number", "round", "name", "command", "outcome", "exit_code"),
    *("figure", "value", "unit"),
)


def table(runs: Sequence[ReportedRun]) -> str:
    """Return the runs as CSV; dates are in UTC, as ISO 8601 writes them."""
    return spreadsheet.table(HEADS, (row for run in runs for row in _rows(run)))


def _rows(run: ReportedRun) -> Iterator[tuple[Cell, ...]]:
    about = _about(run)
    found: dict[int | None, list[figures.NamedFigure]] = {}
    for figure in figures.of(run.record):
        found.setdefault(figure.command, []).append(figure)
    for one in found.get(None, ()):
        yield (*about, *[None] * 6, *_figure(one))
    for command in run.record.commands:
        own = found.get(command.index, ())
        for one in own:
            yield (*about, *_command(command), *_figure(one))
        if not own:
            yield (*about, *_command(command), None, None, None)


def _figure(one: figures.NamedFigure) -> tuple[Cell, ...]:
    return (one.name, one.value, one.unit)


def _about(run: ReportedRun) -> tuple[Cell, ...]:
    record = run.record
    began = datetime.fromtimestamp(record.created_at, UTC)
    return (
        record.id,
        run.tag,
        began.strftime("%Y-%m-%dT%H:%M:%SZ"),
        record.project,
        record.git.commit if record.git else "",
        record.engine.name if record.engine else "",
        record.image.reference if record.image else "",
        ", ".join(gpu.name for gpu in record.gpu.gpus) if record.gpu else "",
        record.verdict.reason.value if record.verdict else record.state.value,
    )


def _command(command: CommandRecord) -> tuple[Cell, ...]:
    return (
        command.number,
        command.round,
        command.name or "",
        command.text,
        command.outcome.value,
        command.exit_code,
    )
