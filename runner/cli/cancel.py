"""`rai cancel RUN...`."""

from __future__ import annotations

from typing import Annotated

import typer

from runner.cli import common
from runner.execution import places
from runner.execution.places import record_of
from runner.report.phrases import words
from runner.store.paths import RunPaths
from runner.terminal.streams import say

ENDS_WITHIN_S = 60.0


def cancel(
    runs: common.UnendedRuns = None,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Do not wait for the end.")
    ] = False,
    as_json: common.JsonFlag = False,
) -> None:
    """Stop runs.

    They may be detached, or run in another terminal. Their containers are stopped and
    their build folders kept, as by Ctrl-C.
    """
    found = common.find_runs(runs or ["latest"])
    going_on = [paths for paths in found if places.active(paths)]
    common.warn_elsewhere(*going_on)
    for paths in going_on:
        places.of(paths).cancel(paths)
    over = [no_wait or _over(paths) for paths in going_on]
    if as_json:
        common.print_json([record_of(paths) for paths in found])
    else:
        for paths in found:
            say(_said(paths, asked=paths in going_on))
    if not all(over):
        raise typer.Exit(10)


def _over(paths: RunPaths) -> bool:
    """Wait for the end of a run; say on stderr where it does not come."""
    if places.wait(paths, ENDS_WITHIN_S):
        return True
    text = f"run {paths.id} has not ended after {ENDS_WITHIN_S:g} s"
    say(f"Error: {text}; see what it does: rai attach {paths.id}", to_stderr=True)
    return False


def _said(paths: RunPaths, *, asked: bool) -> str:
    found = record_of(paths)
    end = words(found.verdict.reason) if found.verdict else found.state
    if not asked:
        return f"Run {paths.id} had ended before: {end}."
    if found.state.final:
        return f"Run {paths.id} ended: {end}."
    return f"Run {paths.id} will end: it has been asked to."
