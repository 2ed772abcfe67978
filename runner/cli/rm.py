"""`rai rm RUN...`."""

from __future__ import annotations

from typing import Annotated

import typer

from runner import engines
from runner.cli import common, copies
from runner.core import Problem, State
from runner.core.errors import UsageError
from runner.core.quantities import size
from runner.execution import places
from runner.report import phrases
from runner.store import prune, removal, run_files
from runner.store.home import find
from runner.store.paths import RunPaths
from runner.store.runs import read
from runner.terminal.streams import say


def rm(
    runs: common.RunArguments,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Also remove runs of servers, and of machines that cannot be seen from"
            " this one.",
        ),
    ] = False,
    yes: common.Yes = False,
    as_json: common.JsonFlag = False,
) -> None:
    """Remove runs that have ended, with all that is kept of them.

    Tagged runs are removed too. If one of the runs cannot be removed, none is. A run
    that goes on is never removed; where its server or its machine cannot be seen from
    this one, --force says that it is gone for good.
    """
    home, found, problems = common.look_up(runs, find)
    copies.refresh(found)
    problems += [p for paths in found if (p := _refusal(paths, force)) is not None]
    if problems:
        raise UsageError(*problems)
    sizes = {paths.id: removal.size_bytes(paths.root) for paths in found}
    for paths in found:
        run = places.known(paths)
        of = f" of {run.project}" if run else ""
        tag = f" ({tagged})" if (tagged := run_files.read_tag(paths)) else ""
        say(f"Run {paths.id}{tag}{of}: {size(sizes[paths.id])}", to_stderr=True)
    common.confirm("Remove for good?", yes=yes)
    for paths in found:
        if not paths.record.exists():
            places.of(paths).forget(paths)
    left = {paths.id: _left(paths) for paths in found}
    prune.remove(home, list(sizes))
    for name, what in left.items():
        if what:
            say(f"Run {name}: {what}", to_stderr=True)
    if as_json:
        common.print_json({"runs": list(sizes), "freed_bytes": sum(sizes.values())})
        return
    for name, taken in sizes.items():
        say(f"Removed run {name} ({size(taken)}).")


def _left(paths: RunPaths) -> str:
    """Remove what a lost run of this machine left with its engine; say what stays."""
    record = read(paths)
    if record is None or record.engine is None or record.state is not State.LOST:
        return ""
    if places.elsewhere(paths):
        return ""
    return engines.remove_left(record.engine.name, paths.id)


def _refusal(paths: RunPaths, force: bool) -> Problem | None:
    """Return why a run cannot be removed, None if it can."""
    if prune.over(paths) or (places.known(paths) is None and not places.active(paths)):
        return None
    away = places.elsewhere(paths)
    if away and force:
        return None
    if places.unseen(paths):
        text = f"run {paths.id} has not ended"
        return Problem(text, hint=phrases.elsewhere(paths.id, away))
    hint = f"`rai cancel {paths.id}` ends it"
    if away:
        hint += f"; if {away} is gone for good: rai rm --force {paths.id}"
    return Problem(f"run {paths.id} has not ended", hint=hint)
