"""A program that runs beside a run's commands, for as long as they need it."""

from __future__ import annotations

import os
import selectors
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from runner import guard
from runner.process.child import Argv, Child, start

KEPT_BYTES = 2000
READ_BYTES = 1 << 12
POLL_S = 0.05


class Beside(Child):
    """The program; it is killed with its group at the end, or if this process dies.

    Its errors are read all the time, so that it never waits for that; few are kept.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__(process, time.monotonic())
        self._complaint = b""
        self._reader = threading.Thread(target=self._read_errors, daemon=True)
        self._reader.start()

    def says(self, line: bytes, wait_s: float, other: Child | None = None) -> bool:
        """Wait until it prints a line; return whether it did, before its end.

        If the ``other`` one ends, that is waited for no longer.
        """
        said, deadline = b"", time.monotonic() + wait_s
        pipe = self.process.stdout
        assert pipe is not None
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while (left := deadline - time.monotonic()) > 0 and len(said) < KEPT_BYTES:
                if not selector.select(min(left, POLL_S)):
                    if other is not None and other.has_ended():
                        break
                    continue
                data = os.read(pipe.fileno(), 1)
                said += data
                if said.endswith(line + b"\n"):
                    return True
                if not data:
                    break
        return False

    @property
    def complaint(self) -> str:
        """The last line that it printed to stderr."""
        lines = self._complaint.decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""

    def close(self) -> None:
        """Kill it."""
        super().close()
        self._reader.join(1.0)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _read_errors(self) -> None:
        pipe = self.process.stderr
        assert pipe is not None
        with suppress(OSError, ValueError):
            while data := os.read(pipe.fileno(), READ_BYTES):
                self._complaint = (self._complaint + data)[-KEPT_BYTES:]


@contextmanager
def beside(
    argv: Argv, env: Mapping[str, str], *, heard: bool = False
) -> Iterator[Beside]:
    """Run a program until the block ends. Its stdin is a pipe that stays open.

    What it prints to stdout is dropped, unless that is ``heard``.
    """
    guard.start()
    stdout = subprocess.PIPE if heard else subprocess.DEVNULL
    program = Beside(start(argv, env, None, subprocess.PIPE, stdout))
    try:
        yield program
    finally:
        program.close()
