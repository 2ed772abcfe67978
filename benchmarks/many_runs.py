"""Measure the CPU time of `rai history` among many runs, and the time of a prune."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import rows
from benchmarks.startup import RAI, cpu_s
from runner.core import Reason, RunRecord, State, Verdict, record
from runner.store.paths import Home

RUNS = 100_000
OLD = 10_000
ROUNDS = 5
CPU_LIMIT_S = 0.3
PRUNE_LIMIT_S = 20.0
DAY_S = 86_400.0


def measure() -> Iterator[dict[str, object]]:
    """Measure `rai history -n 20` among 100,000 runs, then a prune of 10,000."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"RAI_HOME": folder, "RAI_ENGINE": "bare"}
        fill(Home(Path(folder)), time.time())
        began = time.perf_counter()
        rai("history")  # makes the index
        built_s = time.perf_counter() - began
        time.sleep(4)  # some file systems' times are of whole seconds
        rai("history")
        words = [RAI, "history", "-n", "20"]
        spent = [cpu_s(words) for _ in range(ROUNDS)]
        changed = []
        for number in range(ROUNDS):
            Path(folder, "runs", f"new-{number}").mkdir()
            changed.append(cpu_s(words))
        yield rows.row(
            "cpu of rai history among 100,000 runs",
            f"at most {CPU_LIMIT_S} s of CPU",
            statistics.median(spent) <= CPU_LIMIT_S,
            cpu=rows.spread(spent),
            cpu_after_a_new_run=rows.spread(changed),
            index_made_s=round(built_s, 1),
        )
        began = time.perf_counter()
        rai("prune", "--older", "2d")
        took_s = time.perf_counter() - began
        left = sum(path.name[0] != "." for path in Path(folder, "runs").iterdir())
        yield rows.row(
            "prune of 10,000 of 100,000 runs",
            f"at most {PRUNE_LIMIT_S:.0f} s",
            took_s <= PRUNE_LIMIT_S and left == RUNS - OLD + ROUNDS,
            seconds=round(took_s, 1),
        )


def fill(home: Home, now: float) -> None:
    """Make the folders of runs, one in ten of which ended three days ago."""
    verdict = Verdict(True, True, None, Reason.DONE)
    for number in range(RUNS):
        paths = home.run(os.urandom(5).hex())
        paths.root.mkdir(parents=True)
        at = now - (3 * DAY_S if number < OLD else 3600) + number / RUNS
        ended = RunRecord(
            paths.id, "/home/me/project", "rai_build.yml", at, State.DONE, verdict, at
        )
        paths.record.write_bytes(record.to_json(ended))
        for path in (
            paths.events,
            paths.stdout,
            paths.stderr,
            paths.spec,
        ):
            path.write_bytes(b"")


def rai(*words: str) -> None:
    """Run a command; stop the benchmark if it fails."""
    subprocess.run([RAI, *words], check=True, stdout=subprocess.DEVNULL)
