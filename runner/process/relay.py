"""Carry bytes between a person's terminal and the terminal of a program."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from contextlib import suppress

from runner.core.terminal import Terminal, TerminalSize

READ_BYTES = 1 << 16
MOST_WAITING = 1 << 16
"""What is typed or pasted is read only while less than this waits for the program."""


class Relay:
    """Carries what is typed in, and what is printed out.

    ``inner`` is the descriptor of the program's end, to read from and to write to;
    ``resize`` passes a new size of the terminal on. ``left`` tells that the person
    left, ``ended`` that the program's end was closed.
    """

    def __init__(
        self, terminal: Terminal, inner: int, resize: Callable[[TerminalSize], None]
    ) -> None:
        os.set_blocking(inner, False)
        self._terminal, self._inner, self._resize = terminal, inner, resize
        self._size: TerminalSize | None = None
        self._waiting = b""
        self.left = self.ended = False

    def step(self, wait_s: float) -> bool:
        """Carry what there is, or wait for it; return whether anything was printed."""
        self._pass_size_on()
        outer, inner = self._terminal.fileno(), self._inner
        full = len(self._waiting) >= MOST_WAITING
        reads = [] if self.ended else [inner]
        reads += [] if self.left or full else [outer]
        writes = [inner] if self._waiting else []
        readable, writable, _ = select.select(reads, writes, [], wait_s)
        if outer in readable:
            self._take()
        if writable:
            self._send()
        return inner in readable and self._show()

    def _pass_size_on(self) -> None:
        size = self._terminal.size()
        if size != self._size:
            self._size = size
            self._resize(size)

    def _take(self) -> None:
        typed = self._terminal.read()
        self.left = not typed
        if not self.ended:
            self._waiting += typed

    def _send(self) -> None:
        with suppress(OSError):  # full, or closed: then reading it tells
            sent = os.write(self._inner, self._waiting)
            self._waiting = self._waiting[sent:]

    def _show(self) -> bool:
        try:
            printed = os.read(self._inner, READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:  # what Linux says of a terminal that no program has open
            printed = b""
        if not printed:
            self.ended, self._waiting = True, b""
        self._terminal.write(printed)
        return bool(printed)
