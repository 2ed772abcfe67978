"""`rai parse FILE|-`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

import runner
from runner.cli import common
from runner.core.errors import UsageError
from runner.report import findings
from runner.terminal.layout import blocks
from runner.terminal.streams import say


def parse(
    file: Annotated[
        str, typer.Argument(metavar="FILE|-", help="A file of output; - for stdin.")
    ],
    as_json: common.JsonFlag = False,
) -> None:
    """Print the figures in a program's output.

    These are the lines of the course's programs and of GNU time, the error counts of
    memory checkers, and the tables of nvprof, nsys and `ncu --csv`. Of a table it
    shows the rows that together take over 90 % of the time, and sums up the rest;
    --json has all rows.
    """
    try:
        with sys.stdin.buffer if file == "-" else Path(file).open("rb") as source:
            found = runner.parse(source)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error
    if as_json:
        common.print_json(found)
    elif shown := findings.figures(found):
        blocks(shown)
    else:
        say("No figures found.")
