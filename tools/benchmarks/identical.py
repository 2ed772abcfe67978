"""Whether `rai bench` finds a change between a commit and itself, on this machine.

    python -m tools.benchmarks.identical [ENGINE]

Each bench measures a small program in up to 30 pairs, with whatever else runs here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tools.benchmarks import rows

BENCHES = 20
METRIC = "op_time[final]"
SPEC = """\
commands:
  build:
    - {name: final, run: python3 $RAI_SOURCE_DIR/loop.py}
"""
PROGRAM = """\
import time

began = time.perf_counter()
total = sum(n * n for n in range(400_000))
print("New Inference")
print(f"Op Time: {time.perf_counter() - began:.6f}")
"""
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b")


def main() -> None:
    """Measure, and append a row with the verdicts on times, and on anything."""
    engine = sys.argv[1] if len(sys.argv) > 1 else "local"
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        project.mkdir()
        (project / "rai_build.yml").write_text(SPEC)
        (project / "loop.py").write_text(PROGRAM)
        for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "one")):
            subprocess.run([*GIT, *words], cwd=project, check=True)
        home = {**os.environ, "RAI_HOME": f"{folder}/rai", "CI": ""}
        found = [_verdicts(project, engine, home) for _ in range(BENCHES)]
    times = Counter(verdicts[METRIC] for verdicts in found)
    quiet = ("no difference", "not enough samples")
    alarms = sum(any(v not in quiet for v in one.values()) for one in found)
    rows.keep(
        rows.row(
            f"rai bench of a commit and itself, {engine}",
            f"no change is found in {BENCHES}",
            alarms == 0,
            benches=BENCHES,
            alarms=alarms,
            op_time=dict(times),
            load=os.getloadavg()[0],
        )
    )


def _verdicts(project: Path, engine: str, environ: dict[str, str]) -> dict[str, str]:
    """Carry out a bench; return the verdict on each metric."""
    rai = Path(sys.executable).with_name("rai")
    words = ("bench", "HEAD", "HEAD", "--engine", engine, "--json")
    done = subprocess.run(
        [rai, *words, "-q"],
        cwd=project,
        env=environ,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    figures = json.loads(done.stdout)["diff"]["figures"]
    return {one["metric"]: one["verdict"] for one in figures}


if __name__ == "__main__":
    main()
