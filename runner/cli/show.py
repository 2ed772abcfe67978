"""`rai show RUN`."""

from __future__ import annotations

import time

from runner.cli import common
from runner.client.problems import standing
from runner.execution import places
from runner.report import findings
from runner.report import runs as run_tables
from runner.store import run_files, runs
from runner.terminal.layout import blocks
from runner.terminal.streams import say


def show(run: common.RunOrLatest = "latest", as_json: common.JsonFlag = False) -> None:
    """Show a run's settings, commands, results and figures.

    Of a profiler's table it shows the rows that together take over 90 % of the time,
    and sums up the rest; --json has all rows. It lists the files that profilers wrote
    to the build folder (nvprof, nsys and ncu with -o). Of a submission it shows what
    was measured.
    """
    paths = common.find_run(run)
    found, tag = places.record_of(paths), run_files.read_tag(paths)
    note = run_files.read_note(paths)
    away = places.elsewhere(paths)
    at_server = (
        run_files.read_seen(paths) if away and not places.unseen(paths) else None
    )
    measured = runs.measurement_of(paths)
    if as_json:
        facts: dict[str, object] = {"tag": tag or None, "note": note or None}
        facts["on"] = away or None
        if at_server:
            facts["server"] = at_server
        if measured:
            facts["measurement"] = measured
        common.print_json(found, **facts)
        return
    about = standing(at_server.run, time.time()) if at_server else None
    blocks(run_tables.of(found, tag, away, note, about))
    if measured:
        say()
        blocks(findings.measured(measured))
