"""`rai export RUN...`."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli import ci, common

if TYPE_CHECKING:
    from runner.markup.reported import ReportedRun


class ExportFormat(StrEnum):
    """The forms that `rai export` writes."""

    JSON = "json"
    CSV = "csv"
    JUNIT = "junit"
    GRADESCOPE = "gradescope"


def export(
    runs: common.RunArguments,
    form: Annotated[
        ExportFormat, typer.Option("--format", help="The form of the output.")
    ] = ExportFormat.JSON,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write to this file."),
    ] = None,
    visibility: Annotated[
        str,
        typer.Option(
            help="Who sees the tests on Gradescope: visible, hidden, after_due_date or"
            " after_published."
        ),
    ] = "visible",
    points: Annotated[
        float, typer.Option(help="What each command is worth on Gradescope.")
    ] = 1.0,
) -> None:
    """Write finished runs in a form that other programs read.

    \b
    json        the records, as `rai show --json` has them
    csv         a row for each figure of each command
    junit       a test suite for each run, a test case for each command
    gradescope  results.json of an autograder
    """
    from runner import files
    from runner.core import Problem
    from runner.core.errors import UsageError
    from runner.markup.gradescope import VISIBILITIES
    from runner.terminal.streams import put

    if visibility not in VISIBILITIES:
        raise UsageError(
            Problem(
                f'--visibility is "{visibility}"',
                hint=f"there are {', '.join(VISIBILITIES)}",
            )
        )
    if not (math.isfinite(points) and points > 0):
        raise UsageError(f"--points is {points:g}; expected a number above 0")
    if output is not None:
        common.check_output(output, "-o")
    found = _reported(runs)
    text = _text(found, form, visibility, points)
    if output is None:
        put(text)
    else:
        files.write(output, text.encode())


def _reported(runs: list[str]) -> list[ReportedRun]:
    """Return the runs that were named.

    Raises:
        UsageError: some name no run, or one that has not ended.
    """
    from runner import places
    from runner.core import Problem
    from runner.core.errors import UsageError

    found = []
    problems = []
    for paths in common.find_runs(runs):
        record = places.record_of(paths)
        if not record.state.final:
            text = f"run {record.id} has not ended"
            problems.append(Problem(text, hint=f"rai wait {record.id}"))
            continue
        found.append(ci.of_run(paths, record))
    if problems:
        raise UsageError(*problems)
    return found


def _text(
    runs: list[ReportedRun], form: ExportFormat, visibility: str, points: float
) -> str:
    from runner.core import record
    from runner.markup import gradescope, junit, rows

    match form:
        case ExportFormat.CSV:
            return rows.table(runs)
        case ExportFormat.JUNIT:
            return junit.document(runs)
        case ExportFormat.GRADESCOPE:
            value: object = gradescope.results(runs, visibility, points)
        case _:
            value = [
                {**record.plain(run.record), "tag": run.tag or None} for run in runs
            ]
    return f"{common.json_text(value)}\n"
