"""Start a program that outlives this one."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from runner.core import Problem
from runner.core.errors import EngineError


def python(module: str) -> list[str]:
    """Return the command line of a module of this program."""
    return [sys.executable, "-m", module]


class Detached:
    """A program in a session of its own, with a pipe to its stdin.

    No terminal, signal or end of this process reaches it. Its stderr is this one's
    until it chooses another.
    """

    def __init__(self, argv: Sequence[str | Path]) -> None:
        """Start it in the root folder, so that it keeps no folder busy.

        Raises:
            EngineError: it cannot be started.
        """
        try:
            self._process = subprocess.Popen(
                argv,
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            problem = Problem(f"cannot start {argv[0]}: {error.strerror}")
            raise EngineError(problem) from error

    def write(self, data: bytes) -> None:
        """Write to its stdin; raise OSError if it has ended."""
        assert self._process.stdin
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def close(self) -> None:
        """Close its stdin."""
        assert self._process.stdin
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def ended(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def leave(self) -> None:
        """Close its stdin and let it go on; nobody waits for its end any more."""
        self.close()
        if self._process.returncode is None:
            # Else Popen warns of a program that still runs when it is collected.
            self._process.returncode = 0
