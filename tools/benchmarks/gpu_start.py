"""Measure the time of a run with a GPU from its start to its first command."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tools.benchmarks import projects, rows

LIMIT_S = 1.5
ROUNDS = 9
SPEC = """\
resources: {gpu: {count: 1}, limits: {time: 15m}}
commands:
  build_image: {target: cpu, gpu_target: full}
  build:
    - "true"
"""


def measure() -> Iterator[dict[str, object]]:
    """Run `true` in the default job's image, which the first run builds if needed."""
    if not projects.gpu_here():
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RAI_HOME"] = f"{folder}/home"
        project = projects.in_own_image(Path(folder, "p"), SPEC)
        for engine in ("docker", "local"):
            taken = [_first_command(project, engine) for _ in range(ROUNDS + 1)][1:]
            spread = rows.spread(taken)
            yield rows.row(
                f"{engine} engine with a GPU, to the first command",
                f"at most {LIMIT_S} s with the image present",
                spread["median_ms"] <= 1000 * LIMIT_S,
                rai=spread,
            )


def _first_command(project: Path, engine: str) -> float:
    """Return the seconds from the process's start to the start of its command."""
    began = time.time()
    command = [projects.RAI, "run", "-p", str(project), "--engine", engine, "--json"]
    done = subprocess.run(command, check=True, capture_output=True)
    run = json.loads(done.stdout)["id"]
    events = Path(os.environ["RAI_HOME"], "runs", run, "events.jsonl")
    lines = map(json.loads, events.read_text().splitlines())
    started = next(x["at"] for x in lines if x["event"] == "CommandStarted")
    return float(started) - began
