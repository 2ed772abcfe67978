"""Draw the blocks of reports on a terminal, with colours and within its width."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from runner import report
from runner.core.screen import printable


def draw(block: report.Block, out: TextIO) -> None:
    """Draw one block on a terminal."""
    console = Console(file=out, highlight=False)
    if isinstance(block, report.Pairs):
        for name, value in block.padded:
            text = Text(name, style="bold")
            console.print(text.append(Text(printable(value), style="not bold")))
        return
    block = report.fitted(block, console.width)
    table = Table(
        title=block.title or None, title_justify="left", box=None, pad_edge=False
    )
    for i, head in enumerate(block.heads):
        table.add_column(head, justify="right" if i in block.right else "left")
    for row in block.rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console.print(table)
