"""Shared by `rai ps` and `rai history`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from runner.cli import common

if TYPE_CHECKING:
    from runner.core import RunRecord
    from runner.store.index import Index
    from runner.store.paths import Home


def show(*, active: bool, limit: int | None, as_json: bool) -> None:
    """Print the running or the finished jobs, newest first."""
    from runner import report
    from runner.core import record
    from runner.store import runs
    from runner.store.home import open_index
    from runner.terminal.tables import blocks

    home = common.home()
    with open_index(home) as index:
        # The end of a run may be in its folder and not yet in the index.
        running = [runs.read(home.run(e.id)) for e in index.list_runs(active=True)]
        index.put(*(one for one in running if one is not None and one.state.final))
        found = _newest(home, index, active=active, limit=limit)
    if as_json:
        common.print_json([record.plain(one) for one in found])
    elif found:
        blocks([report.table(found, time.time())])
    else:
        print("No running jobs." if active else "No runs yet: rai run -p DIR")


def _newest(
    home: Home, index: Index, *, active: bool, limit: int | None
) -> list[RunRecord]:
    """Read the newest runs; drop those whose folders hold no record from the index."""
    from runner.store import runs

    while True:
        ids = [entry.id for entry in index.list_runs(limit=limit, active=active)]
        read = {name: runs.read(home.run(name)) for name in ids}
        unreadable = [name for name, one in read.items() if one is None]
        if not unreadable:
            return [one for one in read.values() if one is not None]
        index.remove(*unreadable)
