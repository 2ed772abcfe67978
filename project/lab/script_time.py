"""Time a milestone's script, from its start to its last line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import perf_counter
from typing import IO

from lab import measurement
from lab.measurement import Spread

FOLDER = Path(__file__).resolve().parents[1]
RUNS = 5  # measured runs, after one that fills the caches


def script_time(name: str, *words: str, runs: int = RUNS) -> tuple[Spread, str]:
    """Run a script repeatedly; return its times and its last line.

    The line is empty if the script fails.
    """
    samples, last = [], ""
    for _ in range(runs + 1):
        last, ms = run([sys.executable, str(FOLDER / name), *words])
        samples.append(ms)
        if not last:
            return measurement.spread([ms]), ""
    return measurement.spread(samples[1:]), last


def run(
    command: Sequence[str], now: Callable[[], float] = perf_counter
) -> tuple[str, float]:
    """Run a command; return its last line, and the milliseconds until that line.

    The line is empty if the command fails.
    """
    began = now()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        last, at = last_line(process.stdout, now)
    return ("" if process.returncode else last), 1000 * (at - began)


def last_line(
    lines: IO[str] | Iterable[str], now: Callable[[], float]
) -> tuple[str, float]:
    """Read all lines; return the last one and the time when it was read."""
    last, at = "", now()
    for line in lines:
        last, at = line.strip(), now()
    return last, at
