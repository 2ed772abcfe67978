"""Start a program that outlives this one."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from runner.core import Problem
from runner.core.errors import EngineError


def python(module: str) -> list[str]:
    """Return the command line of a module of this program."""
    return [sys.executable, "-m", module]


class Detached:
    """A program in a session of its own, with pipes to its stdin and from its stdout.

    No terminal, signal or end of this process reaches it. Its stderr is this one's
    until it chooses another.
    """

    def __init__(
        self, argv: Sequence[str | Path], env: Mapping[str, str] | None = None
    ) -> None:
        """Start it in the root folder, so that it keeps no folder busy.

        ``env`` is its whole environment, by default this process's.

        Raises:
            EngineError: it cannot be started.
        """
        try:
            self._process = subprocess.Popen(
                argv,
                cwd="/",
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            problem = Problem(f"cannot start {argv[0]}: {error.strerror}")
            raise EngineError(problem) from error

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def write(self, data: bytes) -> None:
        """Write to its stdin; raise OSError if it has ended."""
        assert self._process.stdin
        left = memoryview(data)
        while left:
            left = left[self._process.stdin.write(left) or 0 :]

    def read_line(self, timeout_s: float, most_bytes: int) -> bytes:
        """Return the next line of its stdout; b"" if it ends, or none comes in time."""
        assert self._process.stdout
        handle, line = self._process.stdout.fileno(), b""
        ready = select.poll()
        ready.register(handle, select.POLLIN)
        until = time.monotonic() + timeout_s
        while not line.endswith(b"\n") and len(line) < most_bytes:
            left_s = until - time.monotonic()
            if left_s <= 0 or not ready.poll(left_s * 1000):
                return b""
            if not (piece := os.read(handle, most_bytes - len(line))):
                return b""
            line += piece
        return line

    def leave(self) -> None:
        """Close its pipes and let it go on; a thread waits for its end."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe
            with contextlib.suppress(OSError):
                pipe.close()
        # Else it stays a zombie for as long as this process lives.
        threading.Thread(
            target=self._process.wait, name="rai-wait", daemon=True
        ).start()
