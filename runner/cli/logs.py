"""`rai logs RUN [-f]`."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli import common

if TYPE_CHECKING:
    from runner.store.paths import RunPaths
    from runner.store.tail import Tail

POLL_S = 0.2


def logs(
    run: common.RunArgument,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Follow the output until the run ends."),
    ] = False,
    as_json: common.JsonFlag = False,
) -> None:
    """Print the output of a run's commands.

    Their stdout goes to stdout and their stderr to stderr. With --json the run's events
    are printed, one JSON line each.
    """
    from runner.store.tail import Tail

    paths = common.find_run(run)
    _print(Tail(paths), paths, follow=follow, as_json=as_json)


def _print(tail: Tail, paths: RunPaths, *, follow: bool, as_json: bool) -> None:
    from runner import places
    from runner.core import Stream
    from runner.terminal.sinks import Sink

    sinks = {Stream.STDOUT: Sink(sys.stdout), Stream.STDERR: Sink(sys.stderr)}
    while True:
        # Checked before reading, so as not to miss the last output of the run.
        over = not follow or not places.active(paths)
        lines = ((Stream.STDOUT, line) for line in tail.lines())
        for stream, data in lines if as_json else tail.output():
            try:
                sinks[stream].put(data)
            except BrokenPipeError:
                raise
            except OSError as error:
                text = f"cannot write to {stream}: {error.strerror}"
                raise OSError(error.errno, text) from error
        if over:
            return
        time.sleep(POLL_S)
