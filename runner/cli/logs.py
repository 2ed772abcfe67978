"""`rai logs RUN [-f]`."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from runner.cli import settings

POLL_S = 0.2


def logs(
    run: settings.RunArgument,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the run ends.")
    ] = False,
    as_json: settings.JsonFlag = False,
) -> None:
    """Print what a run's commands wrote.

    What they wrote to stdout goes to stdout, and to stderr to stderr. With --json
    the run's events are printed, one JSON line each.
    """
    from runner import runs
    from runner.tail import Tail

    paths = settings.find(settings.home(), run)
    tail = Tail(paths)
    sinks = {"stdout": sys.stdout.buffer, "stderr": sys.stderr.buffer}
    while True:
        # Asked before reading: what a run wrote before it ended is not missed.
        over = not follow or not runs.held(paths)
        if as_json:
            sinks["stdout"].writelines(tail.lines())
        else:
            for stream, data in tail.output():
                sinks[stream].write(data)
        for sink in sinks.values():
            sink.flush()
        if over:
            return
        time.sleep(POLL_S)
