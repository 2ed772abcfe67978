"""`rai show RUN`."""

from __future__ import annotations

from runner.cli import common


def show(run: common.RunArgument, as_json: common.JsonFlag = False) -> None:
    """Show a run's settings, commands, results and figures.

    Of a profiler's table it shows the rows that together take over 90 % of the time,
    and sums up the rest; --json has all rows. It lists the files that profilers wrote
    to the build folder (nvprof, nsys and ncu with -o).
    """
    from runner import places, report
    from runner.core import record
    from runner.store import tags
    from runner.terminal.tables import blocks

    paths = common.find_run(run)
    found, tag = places.record_of(paths), tags.read(paths)
    away = places.elsewhere(paths)
    if as_json:
        facts = {"tag": tag or None, "on": away or None}
        common.print_json({**record.plain(found), **facts})
    else:
        blocks(report.of(found, tag, away))
