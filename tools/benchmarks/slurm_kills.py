"""kill -9 of all that a run on Slurm needs: none runs twice, each has a true end.

A run appends to a file outside what it does. The daemons are back after a while.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import statistics
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec import Struct

from runner.core import RunRecord, State, record
from runner.execution.slurm_jobs import JobStage, stage
from runner.store.paths import Home, RunPaths
from tests.kit.cluster import Cluster
from tools.benchmarks import rows, slurm_cluster
from tools.benchmarks.slurm_cluster import SlurmSite

MOMENTS = int(os.environ.get("RAI_BENCH_KILLS", "20"))
DAEMONS = ("slurmd", "slurmctld")
VICTIMS = ("client", "worker", *DAEMONS)
AT_ONCE = 4

SLEEPS_S = 3
LIFE_S = 2.0 + SLEEPS_S
"""Most runs that nobody disturbs live a bit longer, from the start of the client on."""

AWAY_S = (1.0, 2.0)
MOST_LATE_S = 15.0
ENDLESS_S = 90.0
LOOK_S = 0.25
DOES = "date '+begun %s.%N' >>{file}; sleep {sleeps}; date '+over %s.%N' >>{file}"


class KilledRun(Struct, frozen=True):
    """A run and what became of it.

    ``killed_at`` is None where it was over before. ``found`` is None without a record,
    which was written at ``ended_at``. ``refused`` is whether no run was left.
    """

    log: Path
    name: str
    began_at: float
    killed_at: float | None
    ended_at: float | None
    found: RunRecord | None
    refused: bool

    def lines(self, word: str) -> list[float]:
        """Return when the run wrote a word."""
        with suppress(FileNotFoundError):
            lines = [line.split() for line in self.log.read_text().splitlines()]
            return [float(at) for first, at in lines if first == word]
        return []

    @property
    def succeeded(self) -> bool:
        """Whether its record calls it done."""
        verdict = self.found.verdict if self.found else None
        return verdict is not None and verdict.ran


class QueueLog:
    """Asks squeue all the time which jobs have not ended."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._over = cluster, threading.Event()
        self._polls: list[tuple[float, frozenset[str]]] = []
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> QueueLog:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def knew_at(self, name: str, since: float) -> float | None:
        """Return when Slurm first said that no job of a name goes on, and none did."""
        known = None
        for at, active in self._polls:
            if name in active:
                known = None
            elif known is None and at > since:
                known = at
        return known

    def _work(self) -> None:
        while not self._over.wait(LOOK_S):
            with suppress(AssertionError, subprocess.TimeoutExpired):
                said = self._cluster.ask("squeue", "-h", "-t", "all", "-o", "%T %j")
                jobs = [line.split() for line in said.splitlines()]
                active = [job for word, job in jobs if stage(word) is not JobStage.OVER]
                self._polls.append((time.time(), frozenset(active)))


def measure() -> Iterator[dict[str, object]]:
    """Kill one after the other at many moments of the life of runs."""
    moments = [LIFE_S * n / MOMENTS for n in range(MOMENTS)]
    random.Random(1).shuffle(moments)
    for victim in VICTIMS:
        with slurm_cluster.site() as site, QueueLog(site.cluster) as log:
            killing, runs = Killing(site, victim), []
            for first in range(0, MOMENTS, AT_ONCE):
                runs += killing.some(moments[first : first + AT_ONCE])
            # A job that was started anew would run now.
            with suppress(AssertionError):
                site.cluster.until(partial(_idle, site.cluster))
            yield _row(victim, runs, log)


class Killing:
    """Starts runs and kills a victim, at another moment of each run."""

    def __init__(self, site: SlurmSite, victim: str) -> None:
        self._site, self._victim = site, victim
        self._chance, self._count = random.Random(1), itertools.count()

    def some(self, moments: Sequence[float]) -> list[KilledRun]:
        """Return what becomes of runs that are so old when the victim is killed."""
        kill_at = time.time() + max(moments)
        with ThreadPoolExecutor(len(moments)) as pool:
            runs = [
                pool.submit(self._one, next(self._count), kill_at - age, kill_at)
                for age in moments
            ]
            if self._victim in DAEMONS:
                # A daemon ends with the thread that starts it.
                self._kill_daemons(kill_at)
            return [run.result() for run in runs]

    def _one(self, number: int, start_at: float, kill_at: float) -> KilledRun:
        """Start a run, and wait for its end."""
        site, log = self._site, self._site.folder / f"log-{number}"
        home = Home(site.folder / f"home-{number}")
        does = DOES.format(file=log, sleeps=SLEEPS_S)
        project = site.project([does])
        environ = {"RAI_HOME": str(home.root)}
        _sleep_until(start_at)
        began_at, words = time.time(), ("run", "-p", str(project), "--on", "slurm")
        with site.start(*words, **environ) as client:
            try:
                killed_at = self._kill(home, client, kill_at)
                client.wait(ENDLESS_S)
            except subprocess.TimeoutExpired:
                client.kill()
        paths = _run(home)
        if paths and self._victim == "client":
            site.rai("wait", "--timeout", f"{ENDLESS_S:g}s", paths.id, **environ)
        found = ended_at = None
        if paths and paths.record.exists():
            found = record.from_json(paths.record.read_bytes())
            ended_at = paths.record.stat().st_mtime
        name = f"rai-{paths.id}" if paths else ""
        return KilledRun(log, name, began_at, killed_at, ended_at, found, paths is None)

    def _kill(
        self, home: Home, client: subprocess.Popen[bytes], kill_at: float
    ) -> float | None:
        """Kill what belongs to the run; return when, None where it was over before."""
        if self._victim == "worker":
            # As long after its claim as it would be after the client's start.
            delay_s = max((kill_at - time.time()) * SLEEPS_S / LIFE_S, 0.0)
            while not ((paths := _run(home)) and paths.holder.exists()):
                if client.poll() is not None:
                    return None
                time.sleep(0.01)
            kill_at = time.time() + delay_s
        with suppress(subprocess.TimeoutExpired):
            client.wait(max(kill_at - time.time(), 0.0))
            return None
        if self._victim == "client":
            client.kill()
        elif paths := _run(home) if self._victim == "worker" else None:
            holder = json.loads(paths.holder.read_bytes())
            os.kill(holder["process"]["pid"], signal.SIGKILL)
        return time.time()

    def _kill_daemons(self, at: float) -> None:
        cluster = self._site.cluster
        nodes = cluster.nodes if self._victim == "slurmd" else ("",)
        _sleep_until(at)
        for node in nodes:
            cluster.kill(self._victim, node)
        time.sleep(self._chance.uniform(*AWAY_S))
        for node in nodes:
            cluster.start(self._victim, node)


def _sleep_until(at: float) -> None:
    time.sleep(max(at - time.time(), 0.0))


def _idle(cluster: Cluster) -> bool:
    return not cluster.ask("squeue", "-h", "-o", "%i").split()


def _run(home: Home) -> RunPaths | None:
    return next((RunPaths(path) for path in home.runs.glob("[0-9a-f]*")), None)


def _row(victim: str, runs: Sequence[KilledRun], log: QueueLog) -> dict[str, object]:
    twice = sum(len(one.lines("begun")) > 1 for one in runs)
    false = sum(one.succeeded and len(one.lines("over")) != 1 for one in runs)
    endless = sum(one.found is None and not one.refused for one in runs)
    after = sum(
        one.ended_at is not None
        and any(at > one.ended_at + 1.0 for at in one.lines("over"))
        for one in runs
    )
    refused_ran = sum(one.refused and bool(one.lines("begun")) for one in runs)
    late = []
    for one in runs:
        since = one.killed_at or one.began_at
        knew_at = log.knew_at(one.name, since) if one.name else None
        if one.ended_at is not None and knew_at is not None:
            late.append(max(one.ended_at - knew_at, 0.0))
    ends = Counter(
        one.found.verdict.reason if one.found and one.found.verdict else "none"
        for one in runs
    )
    lost = sum(one.found is not None and one.found.state is State.LOST for one in runs)
    return rows.row(
        f"kill -9 of {victim} at {len(runs)} moments of a run on Slurm",
        "none runs twice, goes on after its end, is falsely done or has no end;"
        f" at most {MOST_LATE_S:g} s after Slurm knows",
        not (twice or false or endless or after or refused_ran)
        and max(late, default=0.0) <= MOST_LATE_S,
        killed=sum(one.killed_at is not None for one in runs),
        ends=dict(ends),
        lost=lost,
        refused=sum(one.refused for one in runs),
        twice=twice,
        falsely_done=false,
        without_end=endless,
        ran_after_its_end=after,
        late_s={
            "median": round(statistics.median(late), 1) if late else None,
            "max": round(max(late), 1) if late else None,
            "n": len(late),
        },
    )
