"""Call rai in this process, for what is not about its start and its end."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from runner.cli.main import _status


def rai(*words: str | Path, input: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command of rai to its end; ``input`` is its stdin."""
    given, out, error = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(3))
    given.buffer.write(input.encode())
    given.seek(0)
    argv = [str(word) for word in words]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out):
        patch.setattr(sys, "stdin", given)
        with redirect_stderr(error):
            status = _status(argv)
    said = []
    for stream in (out, error):
        stream.flush()
        said.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(argv, status, *said)
