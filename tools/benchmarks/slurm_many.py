"""Many runs on Slurm: 200 at once on two nodes, and 1,000 that wait."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path

from runner.core.addresses import SlurmTarget
from runner.core.errors import Cancel
from runner.execution import handover
from runner.execution.prepare import Options, prepare
from runner.execution.slurm_programs import INTERVAL_S
from runner.store.paths import RunPaths
from tools.benchmarks import rows, slurm_cluster
from tools.benchmarks.slurm_cluster import SlurmSite, ended, timed

RUNS = int(os.environ.get("RAI_BENCH_RUNS", "200"))
WAITING = int(os.environ.get("RAI_BENCH_WAITING", "1000"))
CLIENTS = 4
SUBMITTERS = 2
ATTACHED = 5
WATCHED_S = 20.0
MOST_CPU = 0.2
MOST_LISTED_S = 3.0


def measure() -> Iterator[dict[str, object]]:
    """Measure many runs at once, and many that wait."""
    with slurm_cluster.site() as site:
        yield _at_once(site)
    with slurm_cluster.site() as site:
        yield from _waiting(site)


def _at_once(site: SlurmSite) -> dict[str, object]:
    project = site.project(["echo done"])
    began = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        runs = list(pool.map(lambda _: site.left(project), range(RUNS)))
    handed_s = time.perf_counter() - began
    site.rai("wait", *(one.id for one in runs))
    took_s = time.perf_counter() - began
    done = sum(_done(one) for one in runs)
    return rows.row(
        f"{RUNS} runs at once on two nodes of Slurm",
        "all end well",
        done == len({one.id for one in runs}) == RUNS,
        done=done,
        handed_over_s=round(handed_s, 1),
        took_s=round(took_s, 1),
        queries=len(_queries(site)),
    )


def _done(paths: RunPaths) -> bool:
    verdict = ended(paths, 0.0).verdict if paths.record.exists() else None
    return verdict is not None and verdict.ran


def _waiting(site: SlurmSite) -> Iterator[dict[str, object]]:
    """Measure commands that watch and list many runs, which wait for nodes."""
    for node in site.cluster.nodes:
        site.cluster.drain(node, "a benchmark")
    project = site.project(["echo done"])
    shares = [len(range(n, WAITING, SUBMITTERS)) for n in range(SUBMITTERS)]
    began = time.perf_counter()
    with ProcessPoolExecutor(SUBMITTERS, get_context("spawn")) as pool:
        handed = [pool.submit(_submit, site.env, project, n) for n in shares]
        ids = [run for each in handed for run in each.result()]
    handed_s = time.perf_counter() - began
    yield _watched(site, ids, handed_s)
    taken = {
        words: [timed(lambda w=words: _listed(site, w)) for _ in range(3)]  # type: ignore[misc]
        for words in ("ps", "history", "ps --json")
    }
    medians = {
        words: round(statistics.median(each), 2) for words, each in taken.items()
    }
    yield rows.row(
        f"rai ps and rai history with {WAITING:,} runs that wait on Slurm",
        f"each at most {MOST_LISTED_S:g} s",
        max(medians.values()) <= MOST_LISTED_S,
        seconds=medians,
    )


def _submit(env: Mapping[str, str], project: Path, number: int) -> list[str]:
    """Hand over runs, in a process of its own."""
    os.environ.clear()
    os.environ.update(env)
    found = []
    for _ in range(number):
        steps = handover.submit_to_slurm(
            prepare(project, Options()), SlurmTarget(), Cancel()
        )
        while True:
            try:
                next(steps)
            except StopIteration as end:
                found.append(end.value.id)
                break
    return found


def _watched(site: SlurmSite, ids: Sequence[str], handed_s: float) -> dict[str, object]:
    """Count the queries of commands that all wait at the same time."""
    with ExitStack() as ends:
        waiting = site.start("wait", *ids)
        ends.callback(_end, waiting)
        for run in ids[:ATTACHED]:
            ends.callback(_end, site.start("attach", run))
        time.sleep(5.0)  # their start
        before, cpu_s = len(_queries(site)), _cpu_s(waiting.pid)
        began = time.perf_counter()
        while (watched_s := time.perf_counter() - began) < WATCHED_S:
            _listed(site, "ps")
        cpu = (_cpu_s(waiting.pid) - cpu_s) / watched_s
        queries = len(_queries(site)) - before
    return rows.row(
        f"{WAITING:,} runs that wait on Slurm, and {ATTACHED + 2} commands that watch",
        f"one query in {INTERVAL_S:g} s, at most {MOST_CPU:g} of a core for rai wait",
        queries <= watched_s / INTERVAL_S + 2 and cpu <= MOST_CPU,
        queries=queries,
        watched_s=round(watched_s, 1),
        cpu_of_wait=round(cpu, 3),
        handed_over_s=round(handed_s, 1),
    )


def _queries(site: SlurmSite) -> list[str]:
    return site.queries.read_text().splitlines() if site.queries.exists() else []


def _listed(site: SlurmSite, words: str) -> None:
    done = site.rai(*words.split())
    assert done.returncode == 0, done.stderr


def _cpu_s(pid: int) -> float:
    """Return the CPU time of a process, and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
