"""Print the blocks of reports."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from runner import report
from runner.core.screen import printable


def blocks(shown: Iterable[report.Block]) -> None:
    """Print a report's blocks on stdout."""
    console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    for number, block in enumerate(shown):
        if number:
            console.print()
        if isinstance(block, report.Pairs):
            width = max((len(name) for name, _ in block.rows), default=0)
            for name, value in block.rows:
                text = Text(f"{name:<{width}}  ", style="bold")
                console.print(text.append(Text(printable(value), style="not bold")))
        else:
            _table(console, block)


def _table(console: Console, block: report.Table) -> None:
    if sys.stdout.isatty():
        _drawn(console, report.fitted(block, console.width))
    else:
        _plain(console, block)


def _plain(console: Console, block: report.Table) -> None:
    """Print a table for files and pipes, where names are not shortened."""
    widths = [
        max(map(len, column)) for column in zip(block.heads, *block.rows, strict=True)
    ]
    if block.title:
        console.print(Text(block.title))
    for row in (block.heads, *block.rows):
        cells = [
            cell.rjust(width) if i in block.right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        console.print(Text("  ".join(cells).rstrip()))


def _drawn(console: Console, block: report.Table) -> None:
    table = Table(
        title=block.title or None, title_justify="left", box=None, pad_edge=False
    )
    for i, head in enumerate(block.heads):
        table.add_column(head, justify="right" if i in block.right else "left")
    for row in block.rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console.print(table)
