"""Print the blocks of reports: drawn on a terminal, plain for files and pipes."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TextIO

from runner import report
from runner.core.screen import printable


def blocks(shown: Iterable[report.Block], *, to_stderr: bool = False) -> None:
    """Print a report's blocks on stdout or stderr."""
    out = sys.stderr if to_stderr else sys.stdout
    show = _plain
    if out.isatty():
        # rich takes longer to import than the rest of a short command.
        from runner.terminal.drawn import draw as show
    for number, block in enumerate(shown):
        if number:
            print(file=out)
        show(block, out)


def _plain(block: report.Block, out: TextIO) -> None:
    """Print a block whole: names are not shortened."""
    if isinstance(block, report.Pairs):
        for name, value in block.padded:
            print(f"{name}{printable(value)}".rstrip(), file=out)
        return
    widths = [
        max(map(len, column)) for column in zip(block.heads, *block.rows, strict=True)
    ]
    if block.title:
        print(printable(block.title), file=out)
    for row in (block.heads, *block.rows):
        cells = [
            cell.rjust(width) if i in block.right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print(printable("  ".join(cells).rstrip()), file=out)
