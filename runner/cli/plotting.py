"""`rai history --plot`."""

from __future__ import annotations

import time
from pathlib import Path

from runner import files
from runner.cli import common, listing
from runner.core.errors import UsageError
from runner.report.op_times import op_time_plot
from runner.store.query import RunQuery
from runner.terminal.streams import say

NOTHING = "there is no Op Time to draw: no command that succeeded printed one"


def draw(query: RunQuery, limit: int, output: Path | None) -> None:
    """Draw the Op Times of the newest runs that a query asks for.

    They go to the terminal, or as SVG to ``output``.

    Raises:
        UsageError: there is nothing to draw in a file, or it cannot be written, or
            matplotlib is not installed, which draws it.
    """
    if output is not None:
        common.check_output(output, "-o")
    found = listing.read(common.home(), query, limit)
    records = [one.record for one in found]
    plot = op_time_plot(records, time.time(), query.command)
    if not found:
        text = listing.NO_SUCH if query.narrowed else listing.NO_RUNS
    else:
        text = f"{NOTHING[:1].upper()}{NOTHING[1:]}."
    if plot is None:
        if output is not None:
            raise UsageError(NOTHING)
        say(text)
    elif output is None:
        from runner.terminal import plot as terminal_plot

        terminal_plot.draw(plot)
    else:
        from runner import pictures

        files.write(output, pictures.svg(plot).encode())
        say(f"Wrote {output}.")
