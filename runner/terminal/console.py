"""Show the events of a run while it happens.

Program output goes to stdout and stderr as it comes; rai's own lines go to stderr.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from contextlib import suppress

from msgspec.structs import replace

from runner.core import RunRecord, Stream, quantities, record
from runner.core import events as ev
from runner.core.quantities import size
from runner.core.screen import MARK, printable, uncoloured
from runner.figures.table import main_part
from runner.report import ending, phrases
from runner.terminal import layout, messages, streams
from runner.terminal.streams import (
    RESET,
    Cursor,
    Look,
    Sink,
    Tone,
    cut,
    is_file,
    painted,
    same_place,
    wrapped,
)

COLOURS = {"red": "1;31", "green": "1;32", "yellow": "1;33", "cyan": "1;36"}
"""The mark's colours. The text keeps the terminal's own, which can be read on any
background; only a failure is all in red."""

WARNING = "Warning:"


def own(text: str, colour: str, look: Look) -> str:
    """Return a line with its mark; its other lines are indented.

    Nothing in the text, which may be a program's or a project's, can look like the
    beginning of such a line.
    """
    text = printable(text)
    if look.width is None:
        found = text.split("\n")
    else:
        indent = text[: len(text) - len(text.lstrip(" "))]
        room = look.width - len(MARK) - 1 - len(indent)
        found = [indent + line for line in wrapped(text.lstrip(" "), room, fold=False)]
    first, *rest = found
    if not look.colour:
        return "\n  ".join((f"{MARK} {first}", *rest)) + "\n"
    mark = RESET + painted(MARK, COLOURS.get(colour, ""))
    if colour == "red":
        first, *rest = (painted(line, Tone.BAD) for line in found)
    elif first.startswith(WARNING):
        first = painted(WARNING, Tone.HEAD) + first.removeprefix(WARNING)
    return "\n  ".join((f"{mark} {first}", *rest)) + "\n"


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
        able = streams.of(self._sink.stream)
        line = cut(text, (able.width or streams.USUAL_WIDTH) - 1)
        if line != self._shown:
            shown = painted(line, Tone.FAINT) if able.colour else line
            self._sink.own(f"{ERASE}{shown}")
        self._shown, self._drawn_s = line, now

    def close(self) -> None:
        """Remove the line, if there is one."""
        if self._shown:
            self._sink.own(ERASE)
        self._shown = ""


def bar(event: ev.Progress) -> str:
    """Return the progress of a step as a bar."""
    done, task = size(event.done), printable(event.task)
    if not event.total:
        return f"{task} · {done}"
    share = min(event.done / event.total, 1.0)
    full = round(share * BAR)
    drawn = "━" * full + "─" * (BAR - full)
    return f"{task} {drawn} {share:.0%} · {done} of {size(event.total)}"


SILENCE_S = 60
"""Without a live line a silent command is reported this often."""

PAUSE_S = 0.4
"""The live line is shown only if a command printed nothing for so long."""

HELD_BYTES = 16 << 10
"""How much of a repeat's output is shown at least if it fails: the end of it."""


class Console:
    """Shows the events of one run on a terminal or in a log."""

    def __init__(
        self,
        quiet: bool = False,
        *,
        to_stderr: bool = False,
        unpacks: bool = False,
        filtered: bool = False,
    ) -> None:
        """``to_stderr`` sends the program's stdout to stderr too.

        A ``quiet`` one prints of rai's own lines only what failed. ``unpacks`` tells
        that the caller says where the build folder went. A program's output is
        ``filtered`` as for a terminal, if that is asked, but not in files.
        """
        self.quiet = quiet
        out = sys.stderr if to_stderr else sys.stdout
        here = same_place(out, sys.stderr)
        self._own, self._unpacks = Sink(sys.stderr, filtered=filtered), unpacks
        stdout = Sink(out, filtered=filtered and not is_file(out))
        self._sinks = {Stream.STDOUT: stdout, Stream.STDERR: self._own}
        live = streams.of(sys.stderr).live and not quiet
        self._live = LiveLine(self._own) if live else None
        self._cursor = Cursor()
        self._here = {Stream.STDOUT: here, Stream.STDERR: True}
        self._record: RunRecord | None = None
        self._run, self._count, self._rounds = "", 0, 1
        self._command, self._goes_on = ev.CommandStarted(-1, ""), False
        self._began_s = self._now_s = self._heard_s = self._told_s = 0.0
        self._used = (0.0, 0.0)
        self._skipped: list[ev.CommandSkipped] = []
        self._held, self._size = deque[ev.Output](), 0
        self._announced = self._failed = False
        self._latest = self._waits = ""

    def show(self, event: ev.Event, at: float | None = None) -> None:
        """Show one event, which happened now, or at a time that was recorded."""
        self._now_s = time.monotonic() if at is None else at
        if isinstance(event, ev.CommandSkipped):
            self._follow(event)
            self._skipped.append(event)  # shown with those that follow it
            return
        self._show_skipped(event)
        match event:
            case ev.Output() if self._repeats(event):
                self._hold(event)
            case ev.Output():
                self._output(event)
            case ev.Progress():
                self._draw(bar(event))
            case ev.Tick():
                self._tick(event)
            case ev.BuildOutput(text):
                self._build(text)
            case _:
                self._follow(event)
                show = self._repeat if self._repeats(event) else self._show
                show(event)

    def _show(self, event: ev.Event) -> None:
        for text, colour in self._lines(event):
            self.line(text, colour)

    def _draw(self, text: str) -> bool:
        """Draw the live line, if there is one, where no program's line goes on."""
        if self._live and self._cursor.at_line_start and not self._cursor.coloured:
            self._live.show(f"{MARK} {text}")
        return self._live is not None

    def _repeats(self, event: ev.Event) -> bool:
        """Whether an event is of a repeat that goes on or has just ended."""
        index, command = getattr(event, "index", None), self._command
        return command.repeats is not None and index == command.index

    @property
    def _round(self) -> str:
        """Which round it is, and of how many if that is known."""
        of = f" of {self._rounds}" if self._rounds > 1 else ""
        return f"Round {self._command.round + 1}{of}"

    def _repeat(self, event: ev.Event) -> None:
        """Show which round it is, and of a repeat only what went wrong."""
        match event:
            case ev.CommandStarted():
                if not self._announced:
                    self.announce(self._run)
                name = f"{self._round} · {event.name or main_part(event.text)}"
                if not self._draw(self._latest or printable(name)):
                    self._tell(name)
                return
            case ev.CommandFinished():
                wrong = event.exit_code != 0 or event.reason is not None
            case ev.Checked(_, checks):
                wrong = not all(check.holds for check in checks)
            case _:
                return
        if wrong and not self._failed:
            self._failed = True
            self.line(f"{self._round}: {self._command.text}", "green")
            for output in self._held:
                self._output(output)
        for text, colour in self._lines(event):
            if colour == "red":
                self.line(text, colour)

    def _hold(self, event: ev.Output) -> None:
        """Keep the end of a repeat's output."""
        self._held.append(event)
        self._size += len(event.data)
        while self._size - len(self._held[0].data) >= HELD_BYTES:
            self._size -= len(self._held.popleft().data)

    def _tell(self, text: str) -> None:
        """Print a line if nothing was told for a while."""
        if self._now_s - self._told_s >= SILENCE_S:
            self._told_s = self._now_s
            self.line(text)

    def _show_skipped(self, next_event: ev.Event) -> None:
        """Show the commands that were skipped since the last event, as one list."""
        end = next_event.verdict if isinstance(next_event, ev.Finished) else None
        skipped, self._skipped = self._skipped, []
        for text, colour in messages.skipped(skipped, end):
            self.line(text, colour)

    def line(self, text: str, colour: str = "") -> None:
        """Print one of rai's own lines, with its mark."""
        if not self.quiet or colour == "red":
            self._print(own(text, colour, streams.of(sys.stderr)))

    def announce(self, *run_ids: str) -> None:
        """Print once that measured commands repeat, and which runs' logs have them."""
        self._announced, self._told_s = True, self._now_s
        rounds = f", {self._rounds} rounds in all" if self._rounds > 1 else ""
        logs = ", ".join(f"rai logs {run_id}" for run_id in run_ids)
        again = f"What repeats print is kept and not shown: {logs}"
        self.line(f"Repeating what is measured{rounds}. {again}", "yellow")

    def latest(self, text: str) -> None:
        """Show what has just been measured: in the live line, else as a line."""
        if self._live:
            self._latest = printable(text)
        else:
            self.line(text, "cyan")

    def waiting(self, text: str, news: str) -> None:
        """Show what a run waits for until it begins.

        Without a live line it is printed when its ``news`` are others than before, ""
        for none.
        """
        if not self._draw(printable(text)) and news not in ("", self._waits):
            self.line(f"{text}.", "yellow")
        self._waits = news

    def close(self) -> None:
        """Remove the live line."""
        if self._live:
            self._live.close()

    def _output(self, event: ev.Output) -> None:
        here = self._here[event.stream]
        if here:
            self.close()
        shown, why = self._sinks[event.stream].write(event.data)
        if here:
            self._cursor.after(shown)
        self._heard_s = self._told_s = self._now_s
        if why:
            text = f"cannot write to {event.stream}: {why}; `rai logs` has the output"
            self.line(f"Warning: {text}", "yellow")

    def _follow(self, event: ev.Event) -> None:
        """Keep what later lines tell of the run."""
        if isinstance(event, ev.Created):
            self._run, self._count = event.run_id, event.commands
            self._rounds = event.repeat
            self._began_s, self._announced = self._now_s, False
            self._record = record.begin(self._now_s, event)
        elif self._record:
            with suppress(ValueError):  # the events that are shown again are damaged
                self._record = record.advance(self._record, self._now_s, event)
        if isinstance(event, ev.CommandFinished):
            self._goes_on = False
        if isinstance(event, ev.CommandStarted):
            self._command, self._goes_on = event, True
            self._used, self._failed = (0.0, 0.0), False
            self._held.clear()
            self._size = 0
            self._heard_s = self._now_s
            if not self._announced:
                self._told_s = self._now_s

    def _lines(self, event: ev.Event) -> messages.Lines:
        if isinstance(event, ev.Collected) and self._unpacks:
            return []
        if not isinstance(event, ev.Finished):
            return messages.lines(event, self._command, self._count)
        if not self.quiet and self._record:
            self._summary(self._record)
        took_s = max(self._now_s - self._began_s, 0.0)
        return messages.ending(self._run, event, took_s, whole=self.quiet)

    def _summary(self, done: RunRecord) -> None:
        """Print a line for each command, if there are several."""
        if len(done.commands) < 2:
            return
        able = streams.of(sys.stderr)
        table, notes = ending.summary(done)
        room = replace(able, width=able.width and able.width - 2)
        mark = RESET + painted(MARK, COLOURS["cyan"]) if able.colour else MARK
        for line in layout.rows(table, room) if table else ():
            self._print(f"{mark} {line}\n")
        for text in notes:
            self.line(text, "yellow")

    def _print(self, text: str) -> None:
        """Print whole lines below what is shown."""
        self.close()
        if not self._cursor.at_line_start:
            text = f"\n{text}"
        self._cursor.forget()
        self._own.own(text)

    def _build(self, text: str) -> None:
        if self.quiet:
            return
        self.close()
        shown, _ = self._own.write(uncoloured(text).encode())
        self._cursor.after(shown)

    def _tick(self, event: ev.Tick) -> None:
        if not self._goes_on or event.index != self._command.index:
            return
        if not self._live:
            elapsed = phrases.seconds(event.elapsed_s)
            if event.elapsed_s >= SILENCE_S:
                self._tell(f"Still running after {elapsed}: {self._command.text}")
        elif self._now_s - self._heard_s > PAUSE_S:
            self._draw(self._progress(event))

    def _progress(self, event: ev.Tick) -> str:
        """Return what runs, for how long, and what it uses."""
        again = self._repeats(event)
        which = self._round
        if not again:
            which = messages.numbered(event.index, self._count)
        parts = [f"{self._latest} · {which}" if again and self._latest else which]
        elapsed_s = round(event.elapsed_s)
        parts.append(phrases.seconds(elapsed_s) if elapsed_s > 99 else f"{elapsed_s} s")
        if event.cpu_s is not None:
            before_s, cpu_s = self._used
            share = (event.cpu_s - cpu_s) / max(event.elapsed_s - before_s, 0.1)
            parts.append(f"CPU {max(share, 0.0):.0%}")
            self._used = (event.elapsed_s, event.cpu_s)
        if event.memory_bytes is not None:
            parts.append(quantities.size(event.memory_bytes))
        text = self._command.name or main_part(self._command.text)
        return " · ".join((*parts, printable(text)))
