"""`rai show RUN`."""

from __future__ import annotations

from runner.cli import common
from runner.terminal.streams import say


def show(run: common.RunArgument, as_json: common.JsonFlag = False) -> None:
    """Show a run's settings, commands, results and figures.

    Of a profiler's table it shows the rows that together take over 90 % of the time,
    and sums up the rest; --json has all rows. It lists the files that profilers wrote
    to the build folder (nvprof, nsys and ncu with -o). Of a submission it shows what
    was measured.
    """
    from runner import places, report
    from runner.core import record
    from runner.store import measurements, notes, tags
    from runner.terminal.tables import blocks

    paths = common.find_run(run)
    found, tag = places.record_of(paths), tags.read(paths)
    note = notes.read(paths)
    away = places.elsewhere(paths)
    measured = measurements.of(paths)
    if as_json:
        facts = {"tag": tag or None, "note": note or None, "on": away or None}
        if measured:
            facts["measurement"] = record.plain(measured)
        common.print_json({**record.plain(found), **facts})
        return
    blocks(report.of(found, tag, away, note))
    if measured:
        say()
        blocks(report.measured(measured))
