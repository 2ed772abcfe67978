"""Measure `rai history` and `rai diff` among many runs, and a prune."""

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
from runner.store import notes, tags
from runner.store.paths import Home

RUNS = 100_000
OLD = 10_000
ROUNDS = 5
CPU_LIMIT_S = 0.3
PRUNE_LIMIT_S = 20.0
DAY_S = 86_400.0
FILTERED = (
    "--branch rare",
    "--branch no-such-*",
    "--reason failed",
    "--tag best-9*",
    "--project course",
    "--project no-such-word",
    "--command no-such-word",
    "--since 90m --until 30m",
    "--sort op-time",
    "--sort took --reverse",
    "--sort op-time --branch main --reason done --command m3.1 --format csv",
    "--sort size --branch rare",
)
COMPARED = ("", "best-10", "best-10 best-98", "best-10 latest --all --json")
"""Words of `rai diff`: the latest run, an old one, two by their tags, all of two."""


def measure() -> Iterator[dict[str, object]]:
    """Measure `rai history` and `rai diff` among 100,000 runs, then a prune."""
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
        sized_s = cpu_s([RAI, "history", "--sort", "size"])
        filtered = {words: _median_s(words) for words in FILTERED}
        slowest = max(filtered, key=lambda words: filtered[words])
        yield rows.row(
            "cpu of a filtered rai history among 100,000 runs",
            f"each at most {CPU_LIMIT_S} s of CPU",
            filtered[slowest] <= CPU_LIMIT_S,
            slowest=slowest,
            each_ms={words: round(1000 * s, 1) for words, s in filtered.items()},
            first_sort_by_size_ms=round(1000 * sized_s, 1),
        )
        yield rows.row(
            "cpu of rai history among 100,000 runs",
            f"at most {CPU_LIMIT_S} s of CPU",
            statistics.median(spent) <= CPU_LIMIT_S,
            cpu=rows.spread(spent),
            cpu_after_a_new_run=rows.spread(changed),
            index_made_s=round(built_s, 1),
        )
        compared = {words: _median_s(words, "diff") for words in COMPARED}
        slowest = max(compared, key=lambda words: compared[words])
        yield rows.row(
            "cpu of rai diff among 100,000 runs",
            f"each at most {CPU_LIMIT_S} s of CPU",
            compared[slowest] <= CPU_LIMIT_S,
            each_ms={words: round(1000 * s, 1) for words, s in compared.items()},
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
    """Make the folders of runs, one in ten of which ended three days ago.

    They are of ten projects; one in a thousand has a tag and a note.
    """
    for number in range(RUNS):
        paths = home.run(os.urandom(5).hex())
        paths.root.mkdir(parents=True)
        at = now - (3 * DAY_S if number < OLD else 3600) + number / RUNS
        paths.record.write_bytes(record.to_json(_ended(paths.id, number, at)))
        if number >= OLD and number % 1000 == 0:
            tags.write(paths, f"best-{number // 1000}")
            notes.write(paths, "the fastest so far")
        for path in (
            paths.events,
            paths.stdout,
            paths.stderr,
            paths.spec,
        ):
            path.write_bytes(b"")


def _ended(name: str, number: int, at: float) -> RunRecord:
    reason = Reason.TIME_LIMIT if number % 7 == 0 else Reason.DONE
    branch = "rare" if number % 5000 == 0 else ("main", "tiling", "m3")[number % 3]
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


def _median_s(words: str, command: str = "history") -> float:
    every = [RAI, command, *words.split()]
    return statistics.median(cpu_s(every) for _ in range(ROUNDS))


def rai(*words: str) -> None:
    """Run a command; stop the benchmark if it fails."""
    subprocess.run([RAI, *words], check=True, stdout=subprocess.DEVNULL)
