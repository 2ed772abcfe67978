"""Print the blocks of reports: wrapped and coloured on a terminal, else plain."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from runner import report
from runner.terminal import look
from runner.terminal.layout import lines, written
from runner.terminal.streams import write_line


def blocks(shown: Iterable[report.Block], *, to_stderr: bool = False) -> None:
    """Print a report's blocks on stdout or stderr."""
    out = sys.stderr if to_stderr else sys.stdout
    able = look.of(out)
    for number, block in enumerate(shown):
        if number:
            write_line("", out)
        for line in lines(block, able.width):
            write_line(written(line, colour=able.colour), out)
