"""Draw progress bars, a clock for silent commands, and colours on a terminal."""

from __future__ import annotations

import sys
from typing import TextIO, cast

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
from rich.text import Text

from runner.core import events as ev
from runner.terminal.streams import BestEffort


class Live:
    """The last line of the terminal during a step: a progress bar or a clock."""

    def __init__(self) -> None:
        self._console = Console(
            file=cast(TextIO, BestEffort(sys.stderr)),
            force_terminal=True,
            highlight=False,
            soft_wrap=True,
        )
        self._progress: Progress | None = None
        self._task: tuple[str, TaskID] | None = None
        self._status: Status | None = None

    def line(self, text: str, colour: str) -> None:
        """Print a whole line in a colour."""
        self.close()
        self._console.print(Text(text, style=colour))

    def build_output(self, text: str) -> None:
        """Print a piece of an image build's output."""
        self.close()
        self._console.print(Text.from_ansi(text), style="dim", end="")

    def bar(self, event: ev.Progress) -> None:
        """Show the progress of a step."""
        if self._task is None or self._task[0] != event.task or self._progress is None:
            self.close()
            self._progress = _progress(self._console)
            self._progress.start()
            added = self._progress.add_task(event.task, total=event.total)
            self._task = (event.task, added)
        self._progress.update(self._task[1], completed=event.done, total=event.total)

    def clock(self, text: str) -> None:
        """Show how long a command has been silent."""
        if self._status is None:
            self.close()
            self._status = Status("", console=self._console)
            self._status.start()
        self._status.update(escape(text))

    def close(self) -> None:
        """Remove the progress bar or clock."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = self._task = None
        if self._status is not None:
            self._status.stop()
            self._status = None


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("  {task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        console=console,
        transient=True,
    )
