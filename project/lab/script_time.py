"""Time a milestone's script, from its start to its last line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from lab import measurement
from lab.measurement import Spread

FOLDER = Path(__file__).resolve().parents[1]
RUNS = 5  # measured runs, after one that fills the caches


def script_time(name: str, *words: str) -> tuple[Spread, str]:
    """Run a script repeatedly; return its times and its last line.

    The line is empty if the script fails.
    """
    samples, last = [], ""
    for _ in range(RUNS + 1):
        last, ms = run([sys.executable, str(FOLDER / name), *words])
        if not last:
            return measurement.spread([ms]), ""
        samples.append(ms)
    return measurement.spread(samples[1:]), last


def run(command: Sequence[str]) -> tuple[str, float]:
    """Run a command; return its last line, and the milliseconds until that line.

    The line is empty if the command fails.
    """
    began = at = perf_counter()
    last = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            last, at = line.strip(), perf_counter()
    return ("" if process.returncode else last), 1000 * (at - began)
