"""Runs on Slurm, beside the same runs here: what the way costs, and a cancel.

Slurm's scheduler is as it is by default. The nodes are on this machine.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import statistics
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from runner.store.paths import RunPaths
from runner.store.runs import stamped
from tests.kit.cluster import AT_ONCE
from tests.kit.waiting import until
from tools.benchmarks import rows, slurm_cluster
from tools.benchmarks.slurm_cluster import SlurmSite, ended, timed

PAIRS = int(os.environ.get("RAI_BENCH_RUNS", "15"))
CANCELLED = min(PAIRS, 8)
LINES = 1_000_000
TEXT = 40 * "x"
MOST_OVER_S = 3.0
MOST_CANCEL_S = 2.0
MOST_TIMES = 3.0
STEPS = ("packing", "sbatch", "slurm's wait", "worker's start", "run", "end seen")
WAIT = STEPS.index("slurm's wait")


def measure() -> Iterator[dict[str, object]]:
    """Measure the overhead of a run, a cancel, and a long output."""
    for engine in ("bare", "local"):
        with slurm_cluster.site(engine) as site:
            yield _overhead(site, engine)
    with slurm_cluster.site() as site:
        yield _cancels(site, "a run that goes on")
        yield _cancels(site, "a run that waits", waits=True)
        yield _lines(site, "as by default")
    with slurm_cluster.site(settings=AT_ONCE) as site:
        yield _lines(site, "at once")


def _overhead(site: SlurmSite, engine: str) -> dict[str, object]:
    project = site.project(["echo done"])
    over, steps, here = [], [], []
    for number in range(PAIRS + 1):
        here_s = timed(lambda: _run(site, project, "here"))
        before = site.runs()
        began = time.time()
        there_s = timed(lambda: _run(site, project, "slurm"))
        (made,) = site.runs() - before
        if number:
            over.append(there_s - here_s)
            here.append(here_s)
            steps.append(_steps(made, began, began + there_s))
    medians = [round(statistics.median(each), 2) for each in zip(*steps, strict=True)]
    over_s = statistics.median(over)
    return rows.row(
        f"a run on Slurm, engine {engine}",
        f"at most {MOST_OVER_S:g} s over the same run here",
        over_s <= MOST_OVER_S,
        over_s=round(over_s, 2),
        most_s=round(max(over), 2),
        here_s=round(statistics.median(here), 2),
        steps_s=dict(zip(STEPS, medians, strict=True)),
        n=len(over),
    )


def _steps(paths: RunPaths, began: float, over: float) -> list[float]:
    """Return how long each step of a run took, by the times of its files."""
    holder = json.loads(paths.holder.read_bytes())
    # In ticks since the machine started, of which there are 100 in a second.
    up_s = float(Path("/proc/uptime").read_text().split()[0])
    started = time.time() - up_s + float(holder["process"]["started"]) / 100
    first = next(at for at, _ in stamped(paths))
    written = paths.record.stat().st_mtime
    packed, handed = (f.stat().st_mtime for f in (paths.parcel, paths.handed))
    moments = [began, packed, handed, started, first, written, over]
    return [b - a for a, b in itertools.pairwise(moments)]


def _run(site: SlurmSite, project: Path, on: str) -> str:
    done = site.rai("run", "-p", str(project), "--on", on)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _cancels(site: SlurmSite, what: str, *, waits: bool = False) -> dict[str, object]:
    """Cancel runs that have printed something, or that no node takes."""
    project = site.project(["echo begun; sleep 300"])
    taken, right = [], 0
    if waits:
        for node in site.cluster.nodes:
            site.cluster.drain(node, "a benchmark")
    for _ in range(CANCELLED):
        paths = site.left(project)
        if not waits:
            until(partial(_begun, paths))
        taken.append(timed(partial(site.rai, "cancel", paths.id)))
        right += paths.record.exists() and ended(paths).state == "cancelled"
    if waits:
        for node in site.cluster.nodes:
            site.cluster.resume(node)
        site.cluster.wait()
    return rows.row(
        f"cancel of {what} on Slurm",
        f"at most {MOST_CANCEL_S:g} s until it is recorded",
        max(taken) <= MOST_CANCEL_S and right == CANCELLED,
        recorded=right,
        took=rows.spread(taken),
    )


def _begun(paths: RunPaths) -> bool:
    return paths.stdout.exists() and paths.stdout.stat().st_size > 0


def _lines(site: SlurmSite, jobs_start: str) -> dict[str, object]:
    """Print many lines here and on Slurm, in turns."""
    project = site.project([f"seq -f 'line %.0f {TEXT}' {LINES}"])
    wanted = hashlib.sha256()
    for number in range(1, LINES + 1):
        wanted.update(f"line {number} {TEXT}\n".encode())
    same, waits = [], []

    def one(on: str) -> None:
        before, began = site.runs(), time.time()
        found = hashlib.sha256(_run(site, project, on).encode())
        same.append(found.digest() == wanted.digest())
        (made,) = site.runs() - before
        if on == "slurm":
            waits.append(_steps(made, began, time.time())[WAIT])

    ways = {on: partial(one, on) for on in ("here", "slurm")}
    taken = rows.alternated(ways, min(PAIRS, 5))
    here, there = (statistics.median(taken[on]) for on in ways)
    wait_s = statistics.median(waits[1:])
    return rows.row(
        f"{LINES:,} lines from a run on Slurm whose jobs start {jobs_start}",
        f"the same SHA-256, at most {MOST_TIMES:g} times as long as here",
        all(same) and there <= MOST_TIMES * here,
        same=f"{sum(same)} of {len(same)}",
        here_s=round(here, 2),
        slurm_s=round(there, 2),
        slurms_wait_s=round(wait_s, 2),
        times=round(there / here, 2),
        times_without_wait=round((there - wait_s) / here, 2),
    )
