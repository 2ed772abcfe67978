"""What a person sees: the only importer of rich.

Program output goes to stdout and stderr as it comes; rai's own lines go to stderr.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TransferSpeedColumn,
)
from rich.status import Status
from rich.table import Table
from rich.text import Text

from runner import events as ev
from runner import report
from runner.model import ImageAction, Problem, Reason, Severity, Stream
from runner.screen import TerminalFilter

QUIET_FOR_A_LINE_S = 60
"""In plain mode a silent command gets one line this often."""


class Mode(StrEnum):
    """How rai's own lines are shown."""

    AUTO = "auto"
    TTY = "tty"
    PLAIN = "plain"
    QUIET = "quiet"


class Face:
    """Shows the events of one run on a terminal or in a log."""

    def __init__(self, mode: Mode = Mode.AUTO, *, aside: bool = False) -> None:
        """Show in a mode; ``aside`` sends the program's stdout to stderr as well."""
        if mode is Mode.AUTO:
            mode = Mode.TTY if sys.stderr.isatty() else Mode.PLAIN
        self.mode = mode
        self.console = Console(
            file=sys.stderr,
            force_terminal=True if mode is Mode.TTY else None,
            highlight=False,
            soft_wrap=True,
        )
        out = sys.stderr if aside else sys.stdout
        self._sinks = {Stream.STDOUT: _Sink(out), Stream.STDERR: _Sink(sys.stderr)}
        self._progress: Progress | None = None
        self._task: tuple[str, TaskID] | None = None
        self._status: Status | None = None
        self._running = ""
        self._at_line_start = True

    def show(self, event: ev.Event) -> None:
        """Show one event."""
        if isinstance(event, ev.Output):
            self._output(event)
        elif isinstance(event, ev.Progress):
            self._bar(event)
        elif isinstance(event, ev.Tick):
            self._silent(event)
        elif isinstance(event, ev.BuildOutput):
            self._build(event.text)
        elif said := _lines(event):
            self.close()
            for text, colour in said:
                self.line(text, colour)
        if isinstance(event, ev.CommandStarted):
            self._running = event.text

    def line(self, text: str, colour: str = "") -> None:
        """Say one of rai's own lines, beginning with its bullet."""
        if self.mode is Mode.QUIET and colour != "red":
            return
        if not self._at_line_start:
            self.console.file.write("\n")
            self._at_line_start = True
        self.console.print(Text(f"✱ {text}", style=colour))
        self.console.file.flush()

    def close(self) -> None:
        """Take away what is animated."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = self._task = None
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _output(self, event: ev.Output) -> None:
        self.close()
        self._sinks[event.stream].write(event.data)
        self._at_line_start = event.data.endswith(b"\n")

    def _build(self, text: str) -> None:
        if self.mode is not Mode.QUIET:
            self.close()
            self.console.print(Text.from_ansi(text), style="dim", end="")

    def _bar(self, event: ev.Progress) -> None:
        if self.mode is not Mode.TTY or not self.console.is_terminal:
            return
        if self._task is None or self._task[0] != event.task or self._progress is None:
            self.close()
            self._progress = _progress(self.console)
            self._progress.start()
            added = self._progress.add_task(event.task, total=event.total)
            self._task = (event.task, added)
        self._progress.update(self._task[1], completed=event.done, total=event.total)

    def _silent(self, event: ev.Tick) -> None:
        elapsed = report.seconds(event.elapsed_s)
        if self.mode is Mode.PLAIN:
            if int(event.elapsed_s) % QUIET_FOR_A_LINE_S == 0 and event.elapsed_s >= 1:
                self.line(f"Still running after {elapsed}: {self._running}")
        elif self.mode is Mode.TTY and self._at_line_start:
            text = f"{escape(elapsed)}  {escape(self._running[:60])}"
            if self._status is None:
                self._status = Status(text, console=self.console)
                self._status.start()
            self._status.update(text)


class _Sink:
    """A sink for a program's bytes: raw to files and pipes, filtered to a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._raw = getattr(stream, "buffer", None)
        self._stream = stream
        self._filter = TerminalFilter() if stream.isatty() else None

    def write(self, data: bytes) -> None:
        shown = self._filter.feed(data) if self._filter else data
        try:
            if self._raw is None:
                self._stream.write(shown.decode(errors="replace"))
            else:
                self._raw.write(shown)
            self._stream.flush()
        except BrokenPipeError:
            # The reader left; the run is still worth its record.
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("  {task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        console=console,
        transient=True,
    )


def _lines(event: ev.Event) -> list[tuple[str, str]]:
    match event:
        case ev.EngineChosen(engine, profile, _, why):
            how = f" ({engine.how})" if engine.how else ""
            text = f"Using the {engine.name} engine{how}, {profile} profile"
            text += f": {why}." if why else "."
            missing = ", ".join(engine.unenforced)
            return [
                (text + (f" Not enforced here: {missing}." if missing else ""), "cyan")
            ]
        case ev.Warned(text):
            return [(f"Warning: {text}", "yellow")]
        case ev.DataMissing(name, directory, why):
            return [(f"Warning: no {directory}/{name}: {why}", "yellow")]
        case ev.Packing():
            preparing = "Preparing your project directory for upload."
            uploading = "Uploading your project directory. This may take a few minutes."
            return [(preparing, "yellow"), (uploading, "yellow")]
        case ev.Packed(_, size, members):
            text = f"Folder uploaded: {members} entries, {report.size(size)}."
            return [(text, "green")]
        case ev.BuildStarted(reference, why, builder):
            text = f"Server is starting to build image. ({reference}: {why}; {builder})"
            return [(text, "yellow")]
        case ev.PullStarted(reference):
            return [(f"Pulling {reference}.", "yellow")]
        case ev.ImageReady(image):
            using = (f"Using {image.reference} as container image.", "yellow")
            if image.action is ImageAction.BUILD:
                built = f"Server has build your {image.reference} docker image."
                return [(built, "yellow"), using]
            return [using]
        case _:
            return _command_lines(event)


def _command_lines(event: ev.Event) -> list[tuple[str, str]]:
    match event:
        case ev.Starting(what):
            return [(f"Starting {what}.", "yellow")]
        case ev.CommandStarted(_, text):
            return [(f"Running {text}", "green")]
        case ev.CommandSkipped(_, text, why):
            return [(f"Skipping {text} ({why})", "yellow")]
        case ev.CommandFinished(_, code, wall) if code or event.reason:
            said = f"{event.reason}" if event.reason else f"exit status {code}"
            more = "; a process was killed for memory" if event.oom_killed else ""
            text = f"The command ended with {said} after {report.seconds(wall)}{more}."
            return [(text, "red")]
        case ev.Collected(path):
            url = Path(path).as_uri()
            text = f"The build folder has been uploaded to {url}. "
            return [
                (
                    text
                    + "The data will be present for only a short duration of time.",
                    "green",
                )
            ]
        case _:
            return []


def ending(run_id: str, finished: ev.Finished, took_s: float) -> list[tuple[str, str]]:
    """Give the last lines of a run."""
    verdict = finished.verdict
    if verdict.reason is Reason.DONE:
        text = f"Run {run_id} done in {report.seconds(took_s)}."
        return [(f"{text} See it again: rai show {run_id}", "green")]
    text = f"Run {run_id} ended by {verdict.reason}: {verdict.message}"
    return [(text, "red"), (verdict.reason.advice, "yellow")]


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
                console.print(text.append(Text(value, style="not bold")))
        else:
            _table(console, block)


def _table(console: Console, block: report.Table) -> None:
    if not sys.stdout.isatty():
        widths = [
            max(map(len, column))
            for column in zip(block.heads, *block.rows, strict=True)
        ]
        lines = [(block.heads), *block.rows]
        if block.title:
            console.print(Text(block.title))
        for row in lines:
            cells = [
                cell.rjust(width) if i in block.right else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            console.print(Text("  ".join(cells).rstrip()))
        return
    table = Table(
        title=block.title or None, title_justify="left", box=None, pad_edge=False
    )
    for i, head in enumerate(block.heads):
        table.add_column(head, justify="right" if i in block.right else "left")
    for row in block.rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def problems(found: Iterable[Problem]) -> None:
    """Print findings on stderr, errors in red."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for problem in found:
        colour = "red" if problem.severity is Severity.ERROR else "yellow"
        console.print(Text(str(problem), style=colour))
