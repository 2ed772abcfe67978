"""What `rai ps` and `rai history` share."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from runner.cli import common

if TYPE_CHECKING:
    from runner.core import RunRecord
    from runner.store.index import Index
    from runner.store.paths import Home


def show(*, active: bool, limit: int | None, as_json: bool) -> None:
    """Print the runs that are under way, or those that ended, newest first."""
    from runner import report
    from runner.core import record
    from runner.store import runs
    from runner.store.home import opened
    from runner.terminal.tables import blocks

    place = common.home()
    with opened(place) as known:
        # The end of a run may be in its folder and not yet in the index.
        under_way = [runs.read(place.run(e.id)) for e in known.list_runs(active=True)]
        known.put(*(one for one in under_way if one is not None and one.state.final))
        found = _newest(place, known, active=active, limit=limit)
    if as_json:
        common.print_json([record.plain(one) for one in found])
    elif found:
        blocks([report.listing(found, time.time())])
    else:
        print("No runs are under way." if active else "No runs yet: rai run -p DIR")


def _newest(
    place: Home, known: Index, *, active: bool, limit: int | None
) -> list[RunRecord]:
    """Read the newest runs; forget those whose folders hold no record."""
    from runner.store import runs

    while True:
        ids = [entry.id for entry in known.list_runs(limit=limit, active=active)]
        read = {name: runs.read(place.run(name)) for name in ids}
        gone = [name for name, one in read.items() if one is None]
        if not gone:
            return [one for one in read.values() if one is not None]
        known.remove(*gone)
