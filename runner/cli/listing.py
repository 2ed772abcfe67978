"""Shared by `rai ps` and `rai history`."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from runner.cli import common
from runner.terminal.streams import say

if TYPE_CHECKING:
    from runner.report import Listed
    from runner.store.index import Index
    from runner.store.paths import Home


def show(*, active: bool, limit: int | None, as_json: bool) -> None:
    """Print the current or the finished runs, newest first."""
    from runner import places, report
    from runner.store.home import open_index
    from runner.terminal.tables import blocks

    home = common.home()
    with open_index(home) as index:
        # The end of a run may be in its folder and not yet in the index.
        running = [
            places.known(home.run(entry.id)) for entry in index.list_runs(active=True)
        ]
        index.put(*(one for one in running if one is not None and one.state.final))
        found = _newest(home, index, active=active, limit=limit)
    away = {one.record.id: _away(home, one, active) for one in found}
    if as_json:
        common.print_json([_plain(one, away[one.record.id]) for one in found])
    elif not found:
        say("Nothing is running." if active else "No runs yet: rai run -p DIR")
    elif active:
        blocks([report.table([one.record for one in found], time.time(), away)])
    else:
        here = ""
        with suppress(OSError):  # it may have been removed
            here = str(Path.cwd())
        blocks([report.history(found, time.time(), here)])


def _away(home: Home, one: Listed, active: bool) -> str:
    """Return the machine that carries a run out, if it cannot be seen from here."""
    from runner import places

    return places.elsewhere(home.run(one.record.id)) if active else ""


def _plain(one: Listed, away: str) -> dict[str, object]:
    from runner.core import record

    facts = {"tag": one.tag or None, "size_bytes": one.size_bytes, "on": away or None}
    return {**record.plain(one.record), **facts}


def _newest(
    home: Home, index: Index, *, active: bool, limit: int | None
) -> list[Listed]:
    """Read the newest runs; drop those whose folders hold no record from the index."""
    from runner import places
    from runner.report import Listed
    from runner.store.home import measured

    while True:
        entries = index.list_runs(limit=limit, active=active)
        read = {entry.id: places.known(home.run(entry.id)) for entry in entries}
        unreadable = [name for name, one in read.items() if one is None]
        if not unreadable:
            sized = entries if active else measured(home, index, entries)
            return [
                Listed(record, entry.tag, entry.size_bytes)
                for entry in sized
                if (record := read[entry.id]) is not None
            ]
        index.remove(*unreadable)
