"""Start a program that outlives this one."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from runner.core import Problem
from runner.core.errors import EngineError


class Detached:
    """A program in a session of its own, with a pipe to its stdin.

    No terminal, signal or end of this process reaches it. What it prints goes to a log.
    """

    def __init__(
        self, argv: Sequence[str | Path], environ: Mapping[str, str], log: Path
    ) -> None:
        """Start it in the root folder, so that it keeps no folder busy.

        Raises:
            EngineError: it cannot be started.
        """
        with log.open("ab") as output:
            try:
                self._process = subprocess.Popen(
                    argv,
                    env=environ,
                    cwd="/",
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            except OSError as error:
                problem = Problem(f"cannot start {argv[0]}: {error.strerror}")
                raise EngineError(problem) from error

    def write(self, data: bytes) -> None:
        """Write to its stdin, and close that; raise OSError if it has ended."""
        assert self._process.stdin
        with self._process.stdin as pipe:
            pipe.write(data)

    def close(self) -> None:
        """Close its stdin without having written anything."""
        assert self._process.stdin
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def ended(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def leave(self) -> None:
        """Let it go on; nobody waits for its end any more."""
        if self._process.returncode is None:
            # Else Popen warns of a program that still runs when it is collected.
            self._process.returncode = 0
