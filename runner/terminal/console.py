"""Show the events of a run while it happens.

Program output goes to stdout and stderr as it comes; rai's own lines go to stderr.
Progress bars and colours are imported only for a terminal.
"""

from __future__ import annotations

import os
import sys
import time
from enum import StrEnum
from typing import TYPE_CHECKING, TextIO

from runner import report
from runner.core import Stream
from runner.core import events as ev
from runner.core.screen import TerminalFilter, printable, uncoloured
from runner.terminal import messages
from runner.terminal.streams import discard

if TYPE_CHECKING:
    from runner.terminal.live import Live

SILENCE_S = 60
"""In plain mode a silent command is reported this often."""


class Mode(StrEnum):
    """How rai's own lines are shown."""

    AUTO = "auto"
    TTY = "tty"
    PLAIN = "plain"
    QUIET = "quiet"


class Console:
    """Shows the events of one run on a terminal or in a log."""

    def __init__(self, mode: Mode = Mode.AUTO, *, to_stderr: bool = False) -> None:
        """Show in a mode; ``to_stderr`` sends the program's stdout to stderr too."""
        if mode is Mode.AUTO:
            mode = Mode.TTY if sys.stderr.isatty() else Mode.PLAIN
        self.mode = mode
        self._live = _live() if mode is Mode.TTY else None
        out = sys.stderr if to_stderr else sys.stdout
        self._own = Sink(sys.stderr)
        self._sinks = {Stream.STDOUT: Sink(out), Stream.STDERR: Sink(sys.stderr)}
        self._run, self._began_s, self._now_s = "", 0.0, 0.0
        self._running, self._line_at_s = "", SILENCE_S
        self._skipped: list[ev.CommandSkipped] = []
        self._at_line_start = True
        self._shared = _same_place(out, sys.stderr)

    def show(self, event: ev.Event, at: float | None = None) -> None:
        """Show one event, which happened now, or at a time that was recorded."""
        self._now_s = time.monotonic() if at is None else at
        if isinstance(event, ev.CommandSkipped):
            self._skipped.append(event)  # shown with those that follow it
            return
        self._show_skipped(event)
        if isinstance(event, ev.Output):
            self.close()
            if why := self._sinks[event.stream].write(event.data):
                text = (
                    f"cannot write to {event.stream}: {why}; `rai logs` has the output"
                )
                self.line(f"Warning: {text}", "yellow")
            if event.stream is Stream.STDERR or self._shared:
                self._at_line_start = event.data.endswith(b"\n")
        elif isinstance(event, ev.Progress):
            if self._live:
                self._live.bar(event)
        elif isinstance(event, ev.Tick):
            self._silent(event)
        elif isinstance(event, ev.BuildOutput):
            self._build(event.text)
        else:
            for text, colour in self._lines(event):
                self.line(text, colour)
        if isinstance(event, ev.CommandStarted):
            self._running, self._line_at_s = event.text, SILENCE_S

    def _show_skipped(self, next_event: ev.Event) -> None:
        """Show the commands that were skipped since the last event, as one list."""
        end = next_event.verdict if isinstance(next_event, ev.Finished) else None
        skipped, self._skipped = self._skipped, []
        for text, colour in messages.skipped(skipped, end):
            self.line(text, colour)

    def _lines(self, event: ev.Event) -> messages.Lines:
        if isinstance(event, ev.Created):
            self._run, self._began_s = event.run_id, self._now_s
        if isinstance(event, ev.Finished):
            took_s = max(self._now_s - self._began_s, 0.0)
            whole = self.mode is Mode.QUIET
            return messages.ending(self._run, event, took_s, whole=whole)
        return messages.lines(event, self._running)

    def line(self, text: str, colour: str = "") -> None:
        """Print one of rai's own lines, with its bullet."""
        if self.mode is Mode.QUIET and colour != "red":
            return
        self.close()
        shown = printable(f"✱ {text}")
        if not self._at_line_start:
            shown = "\n" + shown
            self._at_line_start = True
        if self._live:
            self._live.line(shown, colour)
        else:
            self._own.write(f"{shown}\n".encode())

    def close(self) -> None:
        """Remove the progress bar or clock."""
        if self._live:
            self._live.close()

    def _build(self, text: str) -> None:
        if self._live:
            self._live.build_output(text)
        elif self.mode is not Mode.QUIET:
            self._own.write(uncoloured(text).encode())

    def _silent(self, event: ev.Tick) -> None:
        elapsed = report.seconds(event.elapsed_s)
        if self._live and self._at_line_start:
            self._live.clock(f"{elapsed}  {self._running[:60]}")
        elif self.mode is Mode.PLAIN and event.elapsed_s >= self._line_at_s:
            self._line_at_s += SILENCE_S
            self.line(f"Still running after {elapsed}: {self._running}")


class Sink:
    """A sink for a program's bytes: raw for files and pipes, filtered for terminals."""

    def __init__(self, stream: TextIO) -> None:
        self._raw = getattr(stream, "buffer", None)
        self._stream = stream
        self._filter = TerminalFilter() if stream.isatty() else None

    def put(self, data: bytes) -> None:
        """Write a piece; raise OSError if that fails."""
        shown = self._filter.feed(data) if self._filter else data
        if self._raw is None:
            self._stream.write(shown.decode(errors="replace"))
        else:
            self._raw.write(shown)
        self._stream.flush()

    def write(self, data: bytes) -> str | None:
        """Write a piece; if that fails return why, "" for a reader that left."""
        try:
            self.put(data)
        except OSError as error:
            # The reader left, or the disk is full: the run goes on for its record.
            discard(self._stream)
            return "" if isinstance(error, BrokenPipeError) else str(error.strerror)
        return None


def _same_place(one: TextIO, other: TextIO) -> bool:
    """Return whether two streams lead to the same terminal, file or pipe."""
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except (OSError, ValueError):
        return True


def _live() -> Live:
    from runner.terminal.live import Live

    return Live()
