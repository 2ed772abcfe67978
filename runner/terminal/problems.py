"""Print problems on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress

from runner.core import Problem, Severity
from runner.core.screen import printable
from runner.terminal import look
from runner.terminal.text import Tone, painted, wrapped


def problems(found: Iterable[Problem]) -> None:
    """Print problems on stderr; on a terminal wrapped, and errors in red.

    They are dropped if stderr cannot be written: the exit status tells of errors.
    """
    able = look.of(sys.stderr)
    for problem in found:
        text = printable(str(problem))
        lines = text.split("\n")
        if able.width:
            lines = wrapped(text, able.width, fold=False)
        if able.colour:
            error = problem.severity is Severity.ERROR
            tone = Tone.BAD if error else Tone.CARE
            lines = [painted(line, tone) for line in lines]
        with suppress(OSError):
            print("\n  ".join(lines), file=sys.stderr)
