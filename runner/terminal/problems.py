"""Print problems on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress

from runner.core import Problem, Severity
from runner.core.screen import printable


def problems(found: Iterable[Problem]) -> None:
    """Print problems on stderr; on a terminal errors in red, warnings in yellow.

    They are dropped if stderr cannot be written: the exit status tells of errors.
    """
    coloured = sys.stderr.isatty()
    for problem in found:
        if coloured:
            _in_colour(problem)
            continue
        with suppress(OSError):
            print(printable(str(problem)), file=sys.stderr)


def _in_colour(problem: Problem) -> None:
    from rich.console import Console
    from rich.text import Text

    colour = "red" if problem.severity is Severity.ERROR else "yellow"
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(Text(printable(str(problem)), style=colour))
