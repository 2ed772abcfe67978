"""Measure the whole time and the memory of the milestones on the CPU."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from tools.benchmarks import rows
from tools.benchmarks.programs import VARIABLE, program

IMAGES = 10_000
LARGEST_LAYER = IMAGES * 12 * 66 * 66 * 4  # bytes that come out of 2019fa's first
MOST = 1.5  # of them, at the peak
ROUNDS = 5
WAYS = [
    (script, backend)
    for script in ("m1.1.py", "m2.1.py")
    for backend in ("mxnet", "numpy")
]


@dataclass
class Runs:
    """The measurements of a program's runs."""

    walls_s: list[float] = field(default_factory=list)
    peak_bytes: int = 0
    op_times_s: list[list[float]] = field(default_factory=list)
    last_line: str = ""


def measure() -> Iterator[dict[str, object]]:
    """Run all scripts and backends in turns, after a round that fills the caches."""
    if len(program("")) > 2:
        sys.exit(f"{VARIABLE}: only a path of a Python is supported, not a command")
    taken = {way: Runs() for way in WAYS if _works(*way)}
    for _ in range(ROUNDS):
        for way, runs in taken.items():
            _run(way, runs)
    for (script, backend), runs in taken.items():
        times = [statistics.median(each) for each in zip(*runs.op_times_s, strict=True)]
        yield rows.row(
            f"{script} {IMAGES} by {backend}",
            f"peak memory at most {MOST} times the largest layer",
            runs.peak_bytes <= MOST * LARGEST_LAYER,
            peak_bytes=runs.peak_bytes,
            of_largest_layer=round(runs.peak_bytes / LARGEST_LAYER, 3),
            op_times_s=[round(seconds, 4) for seconds in times],
            said=runs.last_line,
            **rows.spread(runs.walls_s),
        )


def _works(script: str, backend: str) -> bool:
    words = program(script, "100", "--backend", backend)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"skipping {script} by {backend}: {done.stderr}", file=sys.stderr, end="")
    return done.returncode == 0


def _run(way: tuple[str, str], runs: Runs) -> None:
    script, backend = way
    began = time.perf_counter()
    child = subprocess.Popen(
        program(script, str(IMAGES), "--backend", backend), stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    printed = child.stdout.read().decode()
    _, status, usage = os.wait4(child.pid, 0)
    runs.walls_s.append(time.perf_counter() - began)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{script} by {backend} exited {child.returncode}")
    runs.peak_bytes = max(runs.peak_bytes, usage.ru_maxrss * 1024)
    found = [float(each) for each in re.findall(r"^Op Time: (\S+)", printed, re.M)]
    runs.op_times_s.append(found)
    runs.last_line = printed.splitlines()[-1]
