"""`rai queue`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.cli import common
from runner.terminal.streams import say

if TYPE_CHECKING:
    from runner.report import Table
    from runner.wire.remote_runs import QueueView, RemoteRun


def queue(on: common.On = None, as_json: common.JsonFlag = False) -> None:
    """List what runs and what waits on the server.

    Runs are in the order of their starts. Of other teams' runs only the team is shown.
    """
    from runner.core import Problem, Severity, record
    from runner.remote.api import ServerClient
    from runner.terminal.tables import blocks

    entry = common.server(on)
    with ServerClient(entry) as client:
        view = client.queue()
    if as_json:
        common.print_json({"server": entry.url, **record.plain(view)})
        return
    if view.note:
        common.warn([Problem(view.note, severity=Severity.WARNING)])
    if view.running or view.waiting:
        blocks([_table(view)])
        say()
    say(_free(view))


def _table(view: QueueView) -> Table:
    """Return the runs; a column that is empty for all is left out."""
    import time

    from runner.report import Table

    now = time.time()
    heads = ("place", "run", "state", "team", "person", "project", "gpus", "start", "")
    rows = [_row(run, now) for run in (*view.running, *view.waiting)]
    kept = [at for at in range(len(heads)) if any(row[at] for row in rows)]
    right = frozenset(kept.index(at) for at in (0, 6) if at in kept)
    asides = frozenset(kept.index(at) for at in (8,) if at in kept)
    return Table(
        "",
        tuple(heads[at] for at in kept),
        tuple(tuple(row[at] for at in kept) for row in rows),
        right,
        asides=asides,
    )


def _row(run: RemoteRun, now: float) -> tuple[str, ...]:
    from runner.remote import words
    from runner.wire.remote_runs import QueueState

    waits = run.state is QueueState.WAITING
    place = str(run.ahead + 1) if waits and run.ahead is not None else ""
    start = words.estimate(run.estimate_s) if waits else ""
    if run.started_at is not None:
        start = words.clock(run.started_at, now)
    return (
        *(place, run.id, str(run.state)),
        f"{run.team} (yours)" if run.mine else run.team,
        *(run.person, run.project, str(run.gpus or ""), start, run.why),
    )


def _free(view: QueueView) -> str:
    """Return what is free: ``0 of 1 GPU and 2 of 4 slots without a GPU are free.``."""
    kinds = (
        (view.gpus, view.gpus_free, "GPU"),
        (view.slots, view.slots_free, "slot"),
    )
    parts = [
        f"{free} of {count} {name}{'' if count == 1 else 's'}"
        for count, free, name in kinds
        if count
    ]
    if not parts:
        return "Nothing can run there now."
    start = "" if view.running or view.waiting else "Nothing runs or waits. "
    return f"{start}Free: {', '.join(parts)}."
