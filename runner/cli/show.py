"""`rai show RUN`."""

from __future__ import annotations

from runner.cli import settings


def show(run: settings.RunArgument, as_json: settings.JsonFlag = False) -> None:
    """Show what a run was and what came of it.

    Of a profiler's tables it shows the rows that together take over 90 % of the
    time, and sums up the rest; --json has them all. Files that the commands had
    a profiler write to the build folder are named (nvprof, nsys, ncu: -o).
    """
    from runner import record, report
    from runner.term.tables import blocks

    found = settings.record_of(settings.find(settings.home(), run))
    if as_json:
        settings.print_json(record.plain(found))
    else:
        blocks(report.of(found))
