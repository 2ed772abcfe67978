"""The terminal of the person who uses a shell in a run."""

from __future__ import annotations

import contextlib
import os
import signal
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from runner.core import Problem
from runner.core.errors import UsageError
from runner.core.shell_output import ShellOutputFilter
from runner.core.terminal import TerminalSize

READ_BYTES = 4096
LEAVE = b"\x1d"
"""Ctrl-], which ends a shell that answers no other key."""

LEAVE_TIMES = 3
LEAVE_WITHIN_S = 1.0
USUAL_SIZE = TerminalSize(24, 80)


class OwnTerminal:
    """This process's terminal, which a program elsewhere uses while it is raw.

    ``in_use`` says that it is. Every key is a byte for that program. Its output is
    filtered: see ShellOutputFilter.
    """

    def __init__(self) -> None:
        """Raise UsageError if stdin or stdout is no terminal."""
        self._in, self._out = 0, 1
        for number, name in ((self._in, "stdin"), (self._out, "stdout")):
            if not os.isatty(number):
                text = f"rai shell needs a terminal, but {name} is not one"
                hint = "start it in a terminal; over ssh, with `ssh -t`"
                raise UsageError(Problem(text, hint=hint))
        self._filter = ShellOutputFilter()
        self._leaving: list[float] = []
        self._gone = False
        self.in_use = False

    @contextmanager
    def raw(self) -> Iterator[None]:
        """Pass all keys on; bring the terminal back at every end."""
        before = termios.tcgetattr(self._in)
        resumed = signal.signal(signal.SIGCONT, self._resume)
        self.in_use = True
        try:
            tty.setraw(self._in)
            yield
        finally:
            self.in_use = False
            signal.signal(signal.SIGCONT, resumed)
            self._show(self._filter.restored())
            if not self._filter.at_line_start:
                self._show(b"\r\n")
            # The shell that comes next must not read what was typed for this one.
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._in, termios.TCSAFLUSH, before)

    def fileno(self) -> int:
        """Return stdin."""
        return self._in

    def read(self) -> bytes:
        """Return what was typed; b"" once the person left."""
        try:
            typed = os.read(self._in, READ_BYTES)
        except OSError:  # the terminal was closed
            return b""
        return b"" if self._leaves(typed) else typed

    def write(self, data: bytes) -> None:
        """Show output, filtered."""
        self._show(self._filter.feed(data))

    def size(self) -> TerminalSize:
        """Return the size as it is now."""
        try:
            found = os.get_terminal_size(self._out)
        except OSError:
            return USUAL_SIZE
        return TerminalSize(found.lines, found.columns)

    def _leaves(self, typed: bytes) -> bool:
        """Whether Ctrl-] was pressed three times within a second."""
        if typed.strip(LEAVE):
            self._leaving.clear()
            return False
        now = time.monotonic()
        recent = [at for at in self._leaving if now - at < LEAVE_WITHIN_S]
        self._leaving = [*recent, *[now] * len(typed)]
        return len(self._leaving) >= LEAVE_TIMES

    def _show(self, data: bytes) -> None:
        if self._gone:
            return
        try:
            while data:
                data = data[os.write(self._out, data) :]
        except OSError:
            self._gone = True

    def _resume(self, number: int, frame: FrameType | None) -> None:
        """Be raw again after a stop; the shell that went on meanwhile was not."""
        with contextlib.suppress(termios.error):
            tty.setraw(self._in)
