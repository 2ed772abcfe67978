"""Run a program on a terminal of its own, which a person uses from another."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from runner import guard
from runner.core import Reason
from runner.core.cancel import Cancel
from runner.core.terminal import HANG_UP_S, Terminal, TerminalSize
from runner.process import memory
from runner.process.child import Argv, Child, Ended, ProcessStop, start
from runner.process.relay import Relay

POLL_S = 0.1
SOON_S = 0.01
DRAIN_S = 0.25
MOST_DRAINED_S = 2.0
MOST_SAID = 1 << 16


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
    grace_s: float = HANG_UP_S,
    env: Mapping[str, str],
    cwd: Path | None = None,
    watch: Callable[[], Reason | None] | None = None,
    owner: tuple[int, int] | None = None,
) -> Interaction:
    """Run a program whose stdout is a new terminal; relay that to another.

    Its stdin is ``input``, its stderr a pipe, for what goes wrong before it makes the
    terminal its own. At a limit, a cancel, or when the person leaves, the terminal is
    hung up, and after ``grace_s`` the program's group is killed. ``owner`` is the user
    and group of the new terminal, for root only.

    Raises:
        EngineError: it cannot be started, or does not end when killed.
    """
    guard.start()
    began = time.monotonic()
    master, slave = os.openpty()
    open_ends = contextlib.ExitStack()
    open_ends.callback(os.close, master)
    with open_ends:
        try:
            if owner is not None:
                os.fchown(slave, *owner)
            with memory.readable(input) as stdin:
                child = Child(start(argv, env, cwd, stdin, slave), began)
        finally:
            os.close(slave)
        relay = Relay(terminal, master, lambda size: resize(master, size))
        try:
            reason = _until_ended(
                child,
                relay,
                ProcessStop(
                    began + timeout_s,
                    grace_s,
                    cancel,
                    watch,
                    child,
                    lambda _: open_ends.close(),
                ),
            )
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
    if stop.reason is None:
        _drain(relay)
    return stop.reason


def _drain(relay: Relay) -> None:
    """Show the last output; others may hold the terminal open and go on printing."""
    until = time.monotonic() + MOST_DRAINED_S
    while not relay.ended and time.monotonic() < until and relay.step(DRAIN_S):
        pass


def _said(child: Child) -> str:
    """Return what there is on stderr, without waiting for more."""
    assert child.process.stderr
    handle = child.process.stderr.fileno()
    os.set_blocking(handle, False)
    try:
        return os.read(handle, MOST_SAID).decode(errors="replace")
    except BlockingIOError:
        return ""
