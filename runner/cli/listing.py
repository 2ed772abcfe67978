"""Shared by `rai ps` and `rai history`."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from runner.cli import common, copies
from runner.store.query import RunOrder, RunQuery
from runner.terminal.streams import say

if TYPE_CHECKING:
    from runner.cli.choosing import HistoryChoice
    from runner.report import Listed
    from runner.store.index import Index
    from runner.store.paths import Home


def running(*, as_json: bool) -> None:
    """Show the runs that have not ended."""
    from runner import places, report
    from runner.terminal.tables import blocks

    home = common.home()
    found = read(home, RunQuery(active=True))
    away = {one.record.id: places.elsewhere(home.run(one.record.id)) for one in found}
    if as_json:
        common.print_json([_plain(one, away[one.record.id]) for one in found])
    elif not found:
        say("Nothing is running.")
    else:
        blocks([report.table([one.record for one in found], time.time(), away)])


def history(chosen: HistoryChoice, limit: int) -> None:
    """Show the ended runs that were asked for."""
    from runner import report
    from runner.terminal.tables import blocks

    query = chosen.query
    found = read(common.home(), query, limit, chosen.by, reverse=chosen.reverse)
    if chosen.form == "json":
        common.print_json([_plain(one) for one in found])
    elif chosen.form == "csv":
        from runner.markup import listed_rows
        from runner.terminal.streams import put

        put(listed_rows.table(found))
    elif not found:
        say(NO_SUCH if query.narrowed else NO_RUNS)
    else:
        here = ""
        with suppress(OSError):  # it may have been removed
            here = str(Path.cwd())
        blocks(
            [report.history(found, time.time(), here, commits=query.branch is not None)]
        )


NO_RUNS = "No runs yet: rai run -p DIR"
NO_SUCH = "No run that has ended is like that; `rai history` lists them all."


def read(
    home: Home,
    query: RunQuery,
    limit: int | None = None,
    by: RunOrder = RunOrder.WHEN,
    *,
    reverse: bool = False,
) -> list[Listed]:
    """Return the runs that a query asks for, with their records."""
    from runner import places
    from runner.store.home import measured, open_index

    with open_index(home) as index:
        # The end of a run may be in its folder and not yet in the index.
        unended = index.list_runs(RunQuery(active=True))
        copies.refresh([home.run(entry.id) for entry in unended])
        running = [places.known(home.run(entry.id)) for entry in unended]
        index.put(*(one for one in running if one is not None and one.state.final))
        if by is RunOrder.SIZE:
            measured(home, index, index.list_runs(query))
        return _listed(home, index, query, limit, by, reverse=reverse)


def _listed(
    home: Home,
    index: Index,
    query: RunQuery,
    limit: int | None,
    by: RunOrder,
    *,
    reverse: bool,
) -> list[Listed]:
    """Read the records; drop those whose folders hold none from the index."""
    from runner import places
    from runner.report import Listed
    from runner.store.home import measured

    while True:
        entries = index.list_runs(query, limit, by, reverse=reverse)
        found = {entry.id: places.known(home.run(entry.id)) for entry in entries}
        unreadable = [name for name, one in found.items() if one is None]
        if not unreadable:
            sized = entries if query.active else measured(home, index, entries)
            return [
                Listed(record, entry.tag, entry.size_bytes, entry.note)
                for entry in sized
                if (record := found[entry.id]) is not None
            ]
        index.remove(*unreadable)


def _plain(one: Listed, away: str = "") -> dict[str, object]:
    from runner.core import record

    facts: dict[str, object] = {"tag": one.tag or None, "note": one.note or None}
    facts |= {"size_bytes": one.size_bytes, "on": away or None}
    return {**record.plain(one.record), **facts}
