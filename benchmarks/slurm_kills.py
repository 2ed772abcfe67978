"""kill -9 of all that a run on Slurm needs: none runs twice, each has a true end.

A run appends to a file outside what it does. The daemons are back after a while.
"""

from __future__ import annotations

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

from benchmarks import rows, slurm_cluster
from benchmarks.slurm_cluster import SlurmSite
from runner.core import RunRecord, State, record
from runner.slurm.jobs import JobStage, stage
from runner.store.paths import Home, RunPaths
from tests.runner.slurm.cluster import Cluster

MOMENTS = int(os.environ.get("RAI_BENCH_KILLS", "20"))
VICTIMS = {"client": 4, "worker": 4, "slurmd": 2, "slurmctld": 2}
"""Whom to kill, and how many runs go on at once meanwhile."""

SLEEPS_S = 3
LIFE_S = 3.0 + SLEEPS_S
"""From the start of the client to the end of a run that nobody disturbs."""

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
    for victim, at_once in VICTIMS.items():
        with slurm_cluster.site() as site, QueueLog(site.cluster) as log:
            killing = Killing(site, victim)
            moments = [LIFE_S * n / MOMENTS for n in range(MOMENTS)]
            random.Random(1).shuffle(moments)
            with ThreadPoolExecutor(at_once) as pool:
                runs = list(pool.map(killing.one, range(MOMENTS), moments))
            # A job that was started anew would run now.
            with suppress(AssertionError):
                site.cluster.until(partial(_idle, site.cluster))
            yield _row(victim, runs, log)


class Killing:
    """Starts runs and kills a victim at a moment of each."""

    def __init__(self, site: SlurmSite, victim: str) -> None:
        self._site, self._victim = site, victim
        self._chance, self._lock = random.Random(1), threading.Lock()

    def one(self, number: int, moment_s: float) -> KilledRun:
        """Start a run, kill the victim after a while, and wait for the run's end."""
        site, log = self._site, self._site.folder / f"log-{number}"
        home = Home(site.folder / f"home-{number}")
        does = DOES.format(file=log, sleeps=SLEEPS_S)
        project = site.project(f"p-{number}", does)
        began_at = time.time()
        words = ("run", "-p", str(project), "--on", "slurm")
        with site.start(*words, RAI_HOME=str(home.root)) as client:
            try:
                killed_at = self._kill(home, client, moment_s)
                if self._victim != "client":
                    client.wait(ENDLESS_S)
            except subprocess.TimeoutExpired:
                client.kill()
        paths = _run(home)
        if paths and self._victim == "client":
            with suppress(subprocess.TimeoutExpired):
                most = ("--timeout", f"{ENDLESS_S:g}s")
                site.rai("wait", *most, paths.id, RAI_HOME=str(home.root))
        found = ended_at = None
        if paths and paths.record.exists():
            found = record.from_json(paths.record.read_bytes())
            ended_at = paths.record.stat().st_mtime
        name = f"rai-{paths.id}" if paths else ""
        return KilledRun(log, name, began_at, killed_at, ended_at, found, paths is None)

    def _kill(
        self, home: Home, client: subprocess.Popen[bytes], moment_s: float
    ) -> float | None:
        """Kill the victim; return when, None where the run was over before."""
        if self._victim == "worker":
            return self._kill_worker(home, client, moment_s)
        with suppress(subprocess.TimeoutExpired):
            client.wait(moment_s)
            return None
        if self._victim == "client":
            client.kill()
            return time.time()
        with self._lock:
            cluster = self._site.cluster
            node = "" if self._victim == "slurmctld" else self._node(home)
            killed_at = time.time()
            cluster.kill(self._victim, node)
            time.sleep(self._chance.uniform(*AWAY_S))
            cluster.start(self._victim, node)
        return killed_at

    def _kill_worker(
        self, home: Home, client: subprocess.Popen[bytes], moment_s: float
    ) -> float | None:
        """Kill the worker, counted from its start."""
        while client.poll() is None:
            if (paths := _run(home)) and paths.holder.exists():
                with suppress(subprocess.TimeoutExpired):
                    client.wait(moment_s * SLEEPS_S / LIFE_S)
                    return None
                holder = json.loads(paths.holder.read_bytes())
                os.kill(holder["process"]["pid"], signal.SIGKILL)
                return time.time()
            time.sleep(0.01)
        return None

    def _node(self, home: Home) -> str:
        """Return the node that has the run, any where none has."""
        nodes = self._site.cluster.nodes
        with suppress(AssertionError, subprocess.TimeoutExpired):
            if paths := _run(home):
                asked = ("-h", "-o", "%B", f"--name=rai-{paths.id}")
                node = self._site.cluster.ask("squeue", *asked).strip()
                return node if node in nodes else self._chance.choice(nodes)
        return self._chance.choice(nodes)


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
