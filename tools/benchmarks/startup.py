"""Measure the CPU time of frequent commands."""

from __future__ import annotations

import os
import resource
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tools.benchmarks import rows

RAI = str(Path(sys.executable).with_name("rai"))
LIMIT_S = 0.25
ROUNDS = 11


def measure() -> Iterator[dict[str, object]]:
    """Measure user + system time of `rai --help` and `rai ps`."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["RAI_HOME"] = home
        for words in (["--help"], ["ps"]):
            spent = [cpu_s([RAI, *words]) for _ in range(ROUNDS)][1:]
            median = statistics.median(spent)
            yield rows.row(
                f"cpu of rai {words[0]}",
                f"at most {LIMIT_S} s of CPU",
                median <= LIMIT_S,
                cpu=rows.spread(spent),
            )


def cpu_s(words: list[str]) -> float:
    """Run a program without its output; return its user + system time in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    null = os.open(os.devnull, os.O_WRONLY)
    actions = [(os.POSIX_SPAWN_DUP2, null, 1)]
    child = os.posix_spawn(words[0], words, os.environ, file_actions=actions)
    _, status = os.waitpid(child, 0)
    os.close(null)
    if status != 0:
        raise SystemExit(f"{words} exited with status {status}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
