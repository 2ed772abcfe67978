"""Call a team's convolution on the CPU, and write what it returns.

    python3 -m runner.judge.playing [--source /src] [--out /build]

All that happens in this run is the team's: nothing here is secret, no expected value is
near, and of what it leaves only the bytes of the ``<n>.y`` count. Each case has a
process of its own, so that one that crashes is named.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
from pathlib import Path

from runner.judge import cases, folders
from runner.judge.cases import FLOAT, ConvolutionCase

LIBRARY = Path("program", "convolution.so")
FUNCTION = "rai_convolve"
CASE_S = 60.0
"""How long one call may take."""

NOTHING = b"\xff"
"""What y is full of before a call: as float32, it is not a number."""

POLL_S = 0.002


class PlayError(Exception):
    """Why a case has no y."""


def call(source: Path, out: Path, number: int, case: ConvolutionCase) -> None:
    """Load the library, call its function, write y; raise OSError, AttributeError."""
    y = bytearray(NOTHING * (FLOAT * case.y_count))
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(y), len(y)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    folder = source / "inputs"
    x = bytearray((folder / f"{number}.x").read_bytes())
    k = bytearray((folder / f"{number}.k").read_bytes())
    function = getattr(ctypes.CDLL(str(source / LIBRARY)), FUNCTION)
    function.restype = None
    arrays = ((ctypes.c_char * len(array)).from_buffer(array) for array in (y, x, k))
    threads = len(os.sched_getaffinity(0))
    function(*arrays, *map(ctypes.c_int, (*case.sizes, threads)))
    (out / f"{number}.y").write_bytes(y)


def apart(source: Path, out: Path, number: int, case: ConvolutionCase) -> None:
    """Call the function in a process of its own; raise PlayError."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setpgid(0, 0)
            call(source, out, number, case)
            status = 0
        except (OSError, AttributeError, MemoryError) as error:
            sys.stderr.write(f"{error}\n")
        finally:
            sys.stderr.flush()
            os._exit(status)
    ends = time.monotonic() + CASE_S
    while True:
        found, ended = os.waitpid(child, os.WNOHANG)
        if found:
            break
        if time.monotonic() > ends:
            _end(child)
            os.waitpid(child, 0)
            raise PlayError(f"it took longer than {CASE_S:g} s")
        time.sleep(POLL_S)
    _end(child)
    status = os.waitstatus_to_exitcode(ended)
    if status < 0:
        raise PlayError(f"it was ended by {signal.Signals(-status).name}")
    if status != 0:
        raise PlayError(f"it exited with status {status}")


def _end(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def main(argv: list[str] | None = None) -> int:
    """Call the function for every case, up to the first failure; return the status."""
    source, out = folders.read("runner.judge.playing", argv)
    for number, case in enumerate(cases.read(source / "inputs")):
        try:
            apart(source, out, number, case)
        except PlayError as error:
            sys.stderr.write(f"{FUNCTION} failed for {case.words}: {error}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
