"""`rai wait RUN...`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from runner.cli import common, copies
from runner.core import RunRecord
from runner.core.errors import UsageError
from runner.core.quantities import duration_s
from runner.execution import places
from runner.execution.places import record_of
from runner.store.paths import RunPaths
from runner.terminal.console import Console
from runner.terminal.messages import end_of


def wait(
    runs: common.UnendedRuns = None,
    timeout: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Wait at most so long, such as 10m."),
    ] = None,
    as_json: common.JsonFlag = False,
) -> None:
    """Wait for runs to end; exit with the first status that is not 0.

    A line on stderr tells how each one ended. After --timeout the status is 124, and
    the runs go on.
    """
    most_s = None if timeout is None else duration_s(timeout)
    if timeout is not None and most_s is None:
        raise UsageError(f'--timeout is "{timeout}"; expected a time such as 10m')
    found = common.find_runs(runs or ["latest"], fresh=False)
    common.warn_elsewhere(*found)
    console = Console()
    ended: dict[RunPaths, RunRecord] = {}
    on_trouble = partial(copies.print_connection, console)
    for paths in places.as_they_end(found, most_s, on_trouble):
        ended[paths] = record_of(paths)
        console.line(*end_of(ended[paths]))
    if len(ended) < len(found):
        raise typer.Exit(124)
    if as_json:
        common.print_json([ended[paths] for paths in found])
    statuses = (common.status(ended[paths]) for paths in found)
    raise typer.Exit(next(filter(None, statuses), 0))
