"""Measure `rai runs` and `rai diff` among many runs, and a prune."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from runner.core import (
    CommandRecord,
    EngineFacts,
    Findings,
    GitState,
    Inference,
    Outcome,
    Reason,
    RunRecord,
    Source,
    State,
    Verdict,
    record,
)
from runner.store import run_files
from runner.store.paths import Home
from tools.benchmarks import rows
from tools.benchmarks.startup import RAI, cpu_s

RUNS, OLD = 2_000, 200
ROUNDS = 5
CPU_LIMIT_S = 0.5
PRUNE_LIMIT_S = 5.0
DAY_S = 86_400.0
LISTED = (
    "runs -n 20",
    "runs --branch rare",
    "runs --tag best-1*",
    "runs --project no-such-word",
    "runs --command no-such-word",
    "runs --since 90m",
    "diff best-2",
    "diff best-2 best-3 --all --json",
)


def measure() -> Iterator[dict[str, object]]:
    """Measure `rai runs` and `rai diff` among 2,000 runs, then a prune."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"RAI_HOME": folder, "RAI_ENGINE": "bare"}
        fill(Home(Path(folder)), time.time())
        spent = {words: _median_s(words) for words in LISTED}
        slowest = max(spent, key=lambda words: spent[words])
        yield rows.row(
            "cpu of rai runs and rai diff among 2,000 runs",
            f"each at most {CPU_LIMIT_S} s of CPU",
            spent[slowest] <= CPU_LIMIT_S,
            slowest=slowest,
            each_ms={words: round(1000 * s, 1) for words, s in spent.items()},
        )
        began = time.perf_counter()
        rai("prune", "--older", "2d", "--yes")
        took_s = time.perf_counter() - began
        left = sum(path.name[0] != "." for path in Path(folder, "runs").iterdir())
        yield rows.row(
            "prune of 200 of 2,000 runs",
            f"at most {PRUNE_LIMIT_S:.0f} s",
            took_s <= PRUNE_LIMIT_S and left == RUNS - OLD,
            seconds=round(took_s, 1),
        )


def fill(home: Home, now: float) -> None:
    """Make the folders of runs, one in ten of which ended three days ago.

    They are of ten projects; one in a hundred has a tag and a note.
    """
    for number in range(RUNS):
        paths = home.run(os.urandom(5).hex())
        paths.root.mkdir(parents=True)
        at = now - (3 * DAY_S if number < OLD else 3600) + number / RUNS
        ended = _ended(paths.id, number, at)
        paths.record.write_bytes(record.to_json(ended))
        os.utime(paths.record, (at, ended.ended_at or at))
        if number >= OLD and number % 100 == 0:
            run_files.write_text(paths, f"best-{number // 100}")
            run_files.write_note(paths, "the fastest so far")
        for path in (
            paths.events,
            paths.stdout,
            paths.stderr,
            paths.spec,
        ):
            path.write_bytes(b"")


def _ended(name: str, number: int, at: float) -> RunRecord:
    reason = Reason.TIME_LIMIT if number % 7 == 0 else Reason.DONE
    branch = "rare" if number % 500 == 0 else ("main", "tiling", "m3")[number % 3]
    script = "$RAI_SOURCE_DIR/project/m3.1.py"
    commands = tuple(
        CommandRecord(
            index,
            f"/usr/bin/time python {script} ece408-high {batch}",
            f"batch-{batch}",
            Outcome.OK,
            0,
            wall_s=batch / 500,
            findings=Findings(
                (
                    Inference(
                        (0.01, 0.03 + number / RUNS), 0.84, source=Source(index + 1)
                    ),
                )
            ),
        )
        for index, batch in enumerate((100, 1000, 10_000))
    )
    return RunRecord(
        name,
        f"/home/me/{'course' if number % 10 == 0 else f'project-{number % 10}'}",
        "rai_build.yml",
        at,
        State.DONE,
        Verdict(True, True, None, reason),
        at + number % 90,
        EngineFacts("local"),
        git=GitState(f"{number // 20:040x}", branch, number % 4 == 0),
        commands=commands,
    )


def _median_s(words: str) -> float:
    every = [RAI, *words.split()]
    return statistics.median(cpu_s(every) for _ in range(ROUNDS))


def rai(*words: str) -> None:
    """Run a command; stop the benchmark if it fails."""
    subprocess.run([RAI, *words], check=True, stdout=subprocess.DEVNULL)
