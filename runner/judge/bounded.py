"""Run a compiler on a team's sources: its time, memory, files and words are bounded."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import IO

MOST_OUTPUT = 64 << 10
"""Bytes that are kept of what a program prints; the rest is read and dropped."""

READ_BYTES = 1 << 16
_DRAIN_S = 5.0


@dataclass(frozen=True)
class Bounds:
    """What each process may use, and how long all of them together."""

    seconds: float = 60.0
    memory: int = 1 << 30  # bytes of address space; nvcc's processes need 0.2 GB
    file: int = 64 << 20  # bytes of each file that is written


BOUNDS = Bounds()


@dataclass(frozen=True)
class ProgramEnd:
    """How a program ended, and the first bytes of what it printed."""

    status: int | None  # its exit status, -n after signal n, None after the time limit
    output: str

    @property
    def ended(self) -> str:
        """Return how it ended, such as ``exited with status 1``."""
        if self.status is None:
            return "took too long"
        if self.status < 0:
            return f"was ended by {signal.Signals(-self.status).name}"
        return f"exited with status {self.status}"


def limit(bounds: Bounds = BOUNDS) -> None:
    """Limit this process and all that it starts from now on."""
    wanted = {
        resource.RLIMIT_AS: bounds.memory,
        resource.RLIMIT_FSIZE: bounds.file,
        resource.RLIMIT_CORE: 0,
    }
    for kind, most in wanted.items():
        _, hard = resource.getrlimit(kind)
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (least, least))


def run(argv: Sequence[str], folder: Path, bounds: Bounds = BOUNDS) -> ProgramEnd:
    """Run a program in a folder until it ends or its time is up; then nothing is left.

    It gets a bare environment, as compilers take options from variables. Raises OSError
    where it cannot be started.
    """
    child = subprocess.Popen(
        argv,
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert child.stdout
    kept = bytearray()
    reader = Thread(target=_drain, args=(child.stdout, kept), daemon=True)
    reader.start()
    status: int | None
    try:
        status = child.wait(bounds.seconds)
    except subprocess.TimeoutExpired:
        status = None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    reader.join(_DRAIN_S)
    return ProgramEnd(status, printable(bytes(kept)))


def environment(folder: Path) -> Mapping[str, str]:
    """Return the variables that a compiler gets."""
    path = os.environ.get("PATH", os.defpath)
    return {"PATH": path, "LANG": "C.UTF-8", "HOME": str(folder), "TMPDIR": str(folder)}


def printable(output: bytes) -> str:
    """Return output as text, without characters that a terminal would obey."""
    text = output.decode("utf-8", "replace")
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def _drain(stream: IO[bytes], kept: bytearray) -> None:
    with stream:
        while piece := os.read(stream.fileno(), READ_BYTES):
            kept += piece[: MOST_OUTPUT - len(kept)]
