"""The last line of a terminal during a step, drawn again a few times a second."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from runner.core import events as ev
from runner.core.screen import printable
from runner.report import size
from runner.terminal import look
from runner.terminal.text import Tone, cut, painted

if TYPE_CHECKING:
    from runner.terminal.sinks import Sink

EVERY_S = 0.25
"""Drawn again at most this often."""

BAR = 24
ERASE = "\r\x1b[2K"


class LiveLine:
    """A line that goes away before anything else is shown."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._shown = ""
        self._drawn_s = 0.0

    def show(self, text: str) -> None:
        """Show a text in place of the last, as far as it fits; not too often."""
        now = time.monotonic()
        if self._shown and now - self._drawn_s < EVERY_S:
            return
        able = look.of(self._sink.stream)
        line = cut(text, (able.width or look.USUAL_WIDTH) - 1)
        if line != self._shown:
            shown = painted(line, Tone.FAINT) if able.colour else line
            self._sink.own(f"{ERASE}{shown}")
        self._shown, self._drawn_s = line, now

    def close(self) -> bool:
        """Remove the line; return whether there was one."""
        there, self._shown = bool(self._shown), ""
        if there:
            self._sink.own(ERASE)
        return there


def bar(event: ev.Progress) -> str:
    """Return the progress of a step as a bar."""
    done, task = size(event.done), printable(event.task)
    if not event.total:
        return f"{task} · {done}"
    share = min(event.done / event.total, 1.0)
    full = round(share * BAR)
    drawn = "━" * full + "─" * (BAR - full)
    return f"{task} {drawn} {share:.0%} · {done} of {size(event.total)}"
