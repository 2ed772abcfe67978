"""Write nvprof's output to stderr, stdout, a file, or a file for each process."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TextIO

from nvprof import places


class Log:
    """Writes nvprof's lines: `==PID== ...` of a process, `======== ...` of the run."""

    def __init__(
        self, name: str | None, environ: Mapping[str, str], host: str, quiet: bool
    ) -> None:
        self._name, self._environ, self._host = name, environ, host
        self._quiet = quiet
        self._files: dict[str, TextIO] = {}
        self._stack = contextlib.ExitStack()
        self.failure: str | None = None
        if name is not None:
            self._check(name)

    def _check(self, name: str) -> None:
        """Raise OSError now if the file cannot be written later."""
        if not places.of_each_process(name):
            self._file(name, 0)
            return
        path = Path(places.expanded(name, self._environ, self._host))
        if places.of_each_process(str(path.parent)):
            return
        number = 0 if path.parent.is_dir() else errno.ENOENT
        if not number and not os.access(path.parent, os.W_OK):
            number = errno.EACCES
        if number:
            raise OSError(number, os.strerror(number), str(path))

    def _file(self, name: str, pid: int) -> TextIO:
        if name in places.STDOUT:
            return self._own(sys.stdout)
        if name in places.STDERR:
            return self._own(sys.stderr)
        return self._opened(places.expanded(name, self._environ, self._host, pid))

    def _own(self, file: TextIO | None) -> TextIO:
        """Return a standard stream of this process, or /dev/null if it is closed."""
        return self._opened(os.devnull) if file is None else file

    def _opened(self, path: str) -> TextIO:
        if path not in self._files:
            self._files[path] = self._stack.enter_context(
                Path(path).open(  # noqa: SIM115 - the stack closes it
                    "w", encoding="utf-8", errors="backslashreplace"
                )
            )
        return self._files[path]

    def _write(self, lines: Iterable[str], pid: int | None) -> None:
        if self._quiet:
            return
        name = self._name or places.STDERR[0]
        if pid is None and places.of_each_process(name):
            name = places.STDERR[0]
        # Neither a closed pipe nor a full disk changes the exit status.
        try:
            file = self._file(name, pid or 0)
            for line in lines:
                file.write(line + "\n")
            file.flush()
        except BrokenPipeError:
            pass
        except OSError as error:
            self.failure = f"cannot write the log: {error.strerror}"

    def lines(self, lines: Iterable[str], pid: int | None = None) -> None:
        """Write lines."""
        self._write(lines, pid)

    def of(self, pid: int | None, text: str) -> None:
        """Write one line with the prefix of a process or of the run."""
        lead = "========" if pid is None else f"=={pid}=="
        self._write([f"{lead} {text}"], pid)

    def warn(self, text: str, pid: int | None = None) -> None:
        """Write a warning."""
        self.of(pid, f"Warning: {text}")

    def error(self, text: str) -> None:
        """Write an error."""
        self.of(None, f"Error: {text}")

    def close(self) -> None:
        """Close the files; errors of writing are in `failure`."""
        with contextlib.suppress(OSError):
            self._stack.close()
