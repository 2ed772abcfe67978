"""Run a program on a terminal of its own, which a person uses from another."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import termios
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from msgspec import Struct

from runner.core import Reason
from runner.core.errors import Cancel
from runner.core.screen import HANG_UP_S, Terminal, TerminalSize
from runner.system import guard
from runner.system.child import Argv, Child, Ended, ProcessStop, readable, start

POLL_S = 0.1
SOON_S = 0.01
DRAIN_S = 0.25
MOST_DRAINED_S = 2.0
MOST_SAID = 1 << 16


READ_BYTES = 1 << 16

MOST_WAITING = 1 << 16
"""What is typed or pasted is read only while less than this waits for the program."""


class Interaction(Struct, frozen=True):
    """How a program on a terminal ended, and what came on its stderr before."""

    ended: Ended
    said: str


def interact(
    argv: Argv,
    terminal: Terminal,
    *,
    input: bytes | None = None,
    timeout_s: float,
    cancel: Cancel,
    env: Mapping[str, str],
    cwd: Path | None = None,
    watch: Callable[[], Reason | None] | None = None,
    owner: tuple[int, int] | None = None,
) -> Interaction:
    """Run a program whose stdout is a new terminal; relay that to another.

    Its stdin is ``input``, its stderr a pipe, for what goes wrong before it makes the
    terminal its own. At a limit, a cancel, or when the person leaves, the terminal is
    hung up, and after HANG_UP_S the program's group is killed. ``owner`` is the user
    and group of the new terminal, for root only.

    Raises:
        EngineError: it cannot be started, or does not end when killed.
    """
    guard.start()
    began = time.monotonic()
    master, slave = os.openpty()
    with ExitStack() as open_ends:
        open_ends.callback(os.close, master)
        try:
            if owner is not None:
                os.fchown(slave, *owner)
            with readable(input) as stdin:
                child = Child(start(argv, env, cwd, stdin, slave), began)
        finally:
            os.close(slave)
        relay = Relay(terminal, master, lambda size: resize(master, size))
        hang_up = open_ends.close
        stop = ProcessStop(
            began + timeout_s, HANG_UP_S, cancel, watch, child, lambda _: hang_up()
        )
        try:
            reason = _until_ended(child, relay, stop)
            return Interaction(child.reap(reason), _said(child))
        finally:
            child.close()
            assert child.process.stderr
            child.process.stderr.close()


def resize(handle: int, size: TerminalSize) -> None:
    """Set a terminal's size; its programs are told."""
    packed = struct.pack("HHHH", size.rows, size.columns, 0, 0)
    fcntl.ioctl(handle, termios.TIOCSWINSZ, packed)


def _until_ended(child: Child, relay: Relay, stop: ProcessStop) -> Reason | None:
    """Relay until the program has ended; return why it was made to."""
    while not child.has_ended():
        if relay.left:
            stop.cancel.request()
        stop.check()
        if stop.reason is None:
            relay.step(SOON_S if relay.ended else POLL_S)
        else:
            time.sleep(SOON_S)
    # Others may hold the terminal open and go on printing.
    until = time.monotonic() + MOST_DRAINED_S
    while stop.reason is None and not relay.ended and time.monotonic() < until:
        if not relay.step(DRAIN_S):
            break
    return stop.reason


def _said(child: Child) -> str:
    """Return what there is on stderr, without waiting for more."""
    assert child.process.stderr
    handle = child.process.stderr.fileno()
    os.set_blocking(handle, False)
    try:
        return os.read(handle, MOST_SAID).decode(errors="replace")
    except BlockingIOError:
        return ""


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
        if (size := self._terminal.size()) != self._size:
            self._size = size
            self._resize(size)
        outer, inner = self._terminal.fileno(), self._inner
        full = len(self._waiting) >= MOST_WAITING
        reads = [] if self.ended else [inner]
        reads += [] if self.left or full else [outer]
        writes = [inner] if self._waiting else []
        readable, writable, _ = select.select(reads, writes, [], wait_s)
        if outer in readable:
            typed = self._terminal.read()
            self.left = not typed
            self._waiting += b"" if self.ended else typed
        if writable:
            with suppress(OSError):  # full, or closed: then reading it tells
                sent = os.write(inner, self._waiting)
                self._waiting = self._waiting[sent:]
        return inner in readable and self._show()

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
