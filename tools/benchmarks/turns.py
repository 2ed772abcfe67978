"""This checkout against another one, in turns: RAI_BENCH_OTHER names its folder.

Each side runs by the Python of its own .venv.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tools.benchmarks import projects, rows, startup

MOST_TIMES = 1.05
MOST_CPU_S = 0.15
ROUNDS = 21


def measure() -> Iterator[dict[str, object]]:
    """Compare `rai run` of `true`, and the CPU time of `rai --help` and `rai ps`."""
    other = rows.other()
    if other is None:
        print("RAI_BENCH_OTHER names no other checkout: not measured")
        return
    sides = {
        "now": str(rows.ROOT / ".venv/bin/rai"),
        "before": f"{other}/.venv/bin/rai",
    }
    with tempfile.TemporaryDirectory() as folder:
        project = projects.write(Path(folder, "p"), projects.TRUE)
        homes = {name: f"{folder}/{name}" for name in sides}
        for engine in ("local", "docker"):
            yield _run(sides, homes, project, engine)
        for words in (["--help"], ["ps"]):
            yield _cpu(sides, homes, words)


def _run(
    sides: dict[str, str], homes: dict[str, str], project: Path, engine: str
) -> dict[str, object]:
    def run(name: str) -> None:
        words = ["run", "-p", str(project), "--engine", engine]
        environ = {**os.environ, "RAI_HOME": homes[name]}
        out = subprocess.DEVNULL
        line = [sides[name], *words]
        subprocess.run(line, check=True, stdout=out, stderr=out, env=environ)

    ways = {name: lambda name=name: run(name) for name in sides}
    taken = rows.alternated(ways, rounds=ROUNDS)
    ratio = statistics.median(taken["now"]) / statistics.median(taken["before"])
    return rows.row(
        f"rai run of true, {engine}, against another checkout",
        f"at most {MOST_TIMES} times the other",
        ratio <= MOST_TIMES,
        times=round(ratio, 3),
        **{name: rows.spread(times) for name, times in taken.items()},
    )


def _cpu(
    sides: dict[str, str], homes: dict[str, str], words: list[str]
) -> dict[str, object]:
    spent: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(ROUNDS + 1):
        for name, rai in sides.items():
            os.environ["RAI_HOME"] = homes[name]
            cpu_s = startup.cpu_s([rai, *words])
            if number:
                spent[name].append(cpu_s)
    median = statistics.median(spent["now"])
    return rows.row(
        f"cpu of rai {words[0]}, against another checkout",
        f"at most {MOST_CPU_S} s of CPU",
        median <= MOST_CPU_S,
        times=round(median / statistics.median(spent["before"]), 3),
        **{name: rows.spread(times) for name, times in spent.items()},
    )
