"""Rows of measurements: a line of JSON with the machine and the commit."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).with_name("results.jsonl")


def row(name: str, goal: str, ok: bool, **figures: object) -> dict[str, object]:
    """Return a row: what was measured, the goal, and whether it was reached."""
    return {
        "bench": name,
        "goal": goal,
        "ok": ok,
        **figures,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {_cpu()}",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "commit": _commit(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def other() -> Path | None:
    """Return the checkout that RAI_BENCH_OTHER names to compare with, if any."""
    named = os.environ.get("RAI_BENCH_OTHER")
    return Path(named).absolute() if named else None


def keep(measured: Mapping[str, object]) -> None:
    """Print a row and append it to results.jsonl."""
    line = json.dumps(measured)
    print(line, flush=True)
    with RESULTS.open("a") as file:
        file.write(line + "\n")


def alternated(
    ways: Mapping[str, Callable[[], object]], rounds: int
) -> dict[str, list[float]]:
    """Time all functions in turns, after one round that does not count.

    Machines are noisy: taking turns makes what is slow for a while slow for all.
    """
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            if number:
                taken[name].append(time.perf_counter() - began)
    return taken


def spread(seconds: list[float]) -> dict[str, float]:
    """Return median, minimum and maximum, in milliseconds."""
    return {
        "median_ms": round(1000 * statistics.median(seconds), 1),
        "min_ms": round(1000 * min(seconds), 1),
        "max_ms": round(1000 * max(seconds), 1),
        "n": len(seconds),
    }


def _commit() -> str:
    """Return the commit, with ``-dirty`` if files other than results.jsonl differ."""
    commit = _git("rev-parse", "--short=12", "HEAD")
    kept = f":!{RESULTS.relative_to(ROOT)}"
    changed = _git("status", "--porcelain", "--", ".", kept)
    return f"{commit}-dirty" if commit and changed else commit or "unknown"


def _git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((x.split(": ")[1] for x in lines if x.startswith("model name")), "")
