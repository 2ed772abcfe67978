"""The facts about a machine that are recorded with each measured time."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GENERATED = (
    "project/measurements",
    "project/RESULTS.md",
    "docs/kernels/results.svg",
)
ANSWER_S = 10.0

FIELDS = {
    "gpu": "name",
    "uuid": "uuid",
    "driver": "driver_version",
    "sm_mhz_max": "clocks.max.sm",
    "celsius": "temperature.gpu",
}
Fact = str | float | int | None


def machine(bus_id: str) -> dict[str, Fact]:
    """Query nvidia-smi for the facts of one GPU; unknown ones are None."""
    facts = parsed(_smi(bus_id, f"--query-gpu={','.join(FIELDS.values())}"))
    apps = _smi(bus_id, "--query-compute-apps=pid").split()
    return facts | {"others": len({pid for pid in apps if pid != str(os.getpid())})}


def parsed(line: str) -> dict[str, Fact]:
    """Parse nvidia-smi's line for one GPU; return {} where the query failed."""
    values = [word.strip() for word in line.split(",")]
    if len(values) != len(FIELDS):
        return {}
    return {
        name: value if name in {"gpu", "uuid", "driver"} else _number(value)
        for name, value in zip(FIELDS, values, strict=True)
    }


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None  # such as [N/A]


def _smi(bus_id: str, *question: str) -> str:
    return _output(
        ["nvidia-smi", f"--id={bus_id}", *question, "--format=csv,noheader,nounits"]
    )


def commit() -> str:
    """Return the commit, with ``-dirty`` if any file that is not generated differs."""
    found = _git("rev-parse", "--short=12", "HEAD")
    others = (f":!{path}" for path in GENERATED)
    changed = _git("status", "--porcelain", "--", ".", *others)
    return f"{found}-dirty" if found and changed else found or "unknown"


def _git(*words: str) -> str:
    return _output(["git", "-C", str(ROOT), *words])


def _output(command: Sequence[str]) -> str:
    """Return a program's output, or "" where it fails or is missing."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=ANSWER_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
