"""`rai show RUN`."""

from __future__ import annotations

from runner.cli import common


def show(run: common.RunArgument, as_json: common.JsonFlag = False) -> None:
    """Show what a run was and what came of it.

    Of a profiler's tables it shows the rows that together take over 90 % of the
    time, and sums up the rest; --json has them all. Files that the commands had
    a profiler write to the build folder are named (nvprof, nsys, ncu: -o).
    """
    from runner import report
    from runner.core import record
    from runner.store.home import record_of
    from runner.terminal.tables import blocks

    found = record_of(common.found(run))
    if as_json:
        common.print_json(record.plain(found))
    else:
        blocks(report.of(found))
