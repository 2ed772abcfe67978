"""`rai logs RUN [-f]`."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli import settings

if TYPE_CHECKING:
    from runner.paths import RunPaths
    from runner.tail import Tail

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
    from runner.tail import Tail

    paths = settings.find(settings.home(), run)
    try:
        _print(Tail(paths), paths, follow=follow, as_json=as_json)
    except BrokenPipeError:
        # Its reader has seen enough; what is still in a buffer goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print(tail: Tail, paths: RunPaths, *, follow: bool, as_json: bool) -> None:
    from runner import runs

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
