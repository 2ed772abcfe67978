"""From `git clone` to the first result of the default job, by `make run`.

Packages come from pip's cache, and the image's layers are on the engine: the first
round, which does not count, brings them. With RAI_BENCH_OTHER a clone of that checkout
takes turns.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from tools.benchmarks import rows

MOST_S = {"local": 15.0, "docker": 20.0}
RESULT = re.compile(r"EvalMetric|Correctness|Agreement")
ROUNDS = 5


class Taken(Struct, frozen=True):
    """The seconds since the clone began, and the lines with results."""

    ready: float
    first: float
    whole: float
    results: tuple[str, ...]


def measure() -> Iterator[dict[str, object]]:
    """Measure each engine; a clone of its own for each round."""
    other = rows.other()
    sides = {"now": rows.ROOT, **({"before": other} if other else {})}
    for engine in MOST_S:
        taken: dict[str, list[Taken]] = {name: [] for name in sides}
        for number in range(ROUNDS + 1):
            for name, checkout in sides.items():
                found = first_run(checkout, engine)
                taken[name] += [found] if number else []
        yield _row(engine, taken)


def first_run(checkout: Path, engine: str) -> Taken:
    """Clone a checkout's last commit, and run its default job there."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "rai")
        environ = {**os.environ, "RAI_HOME": f"{folder}/home"}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        began = time.perf_counter()
        subprocess.run(["git", "clone", "-q", checkout, clone], check=True)
        words = ["make", "-s", "run", "GPU=", f"ARGS=--engine {engine}"]
        first, results = 0.0, []
        with subprocess.Popen(
            words, cwd=clone, env=environ, stdout=subprocess.PIPE, text=True
        ) as made:
            assert made.stdout
            for line in made.stdout:
                if RESULT.match(line):
                    first = first or time.perf_counter() - began
                    results.append(line.strip())
        whole = time.perf_counter() - began
        if made.returncode or not results:
            raise SystemExit(f"make run in a clone of {checkout} failed")
        began_at = time.time() - (time.perf_counter() - began)
        ready = (clone / ".venv" / ".ready").stat().st_mtime - began_at
        return Taken(ready, first, whole, tuple(results))


def _row(engine: str, taken: dict[str, list[Taken]]) -> dict[str, object]:
    def median(name: str, part: str) -> float:
        return round(statistics.median(getattr(t, part) for t in taken[name]), 2)

    every = {
        result for rounds in taken.values() for one in rounds for result in one.results
    }
    figures = {
        name: {f"{part}_s": median(name, part) for part in ("ready", "first", "whole")}
        for name in taken
    }
    first = median("now", "first")
    times = {}
    if "before" in taken:
        times = {"times": round(first / median("before", "first"), 3)}
    return rows.row(
        f"first result from a fresh clone, {engine}",
        f"at most {MOST_S[engine]:g} s",
        first <= MOST_S[engine],
        **figures,
        **times,
        n=len(taken["now"]),
        results=sorted(every),
    )
