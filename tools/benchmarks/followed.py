"""Followers of a server's runs: every byte once through kills, soon, and whole."""

from __future__ import annotations

import hashlib
import os
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from runner.core.wire import FILES, MOST_HEADER_BYTES, QueueState, from_line
from runner.execution.copies import Follower
from runner.store.paths import RunPaths
from tests.kit import direct
from tests.kit.site import Person, Site, serving
from tests.kit.waiting import until
from tools.benchmarks import rows

KILLS = int(os.environ.get("RAI_BENCH_KILLS", "50"))
FOLLOWERS, JOBS = 20, 4
LISTENERS = 100
BEATS = 200
MOST_LATE_S = 0.5
LINES = 1_000_000
PATIENCE_S = 300.0
RULES = "roles: {student: {at_once: none, a_day: none}}\n"
UNTIL = (
    "[\"sh -c 'n=0; while [ $n -lt COUNT ]; do n=$((n+1)); echo line $n;"
    " sleep 0.02; done'\"]"
)
CLOCK = (
    "[\"sh -c 'n=0; while [ $n -lt COUNT ]; do n=$((n+1)); date +%s.%N;"
    " sleep 0.05; done'\"]"
)


def measure() -> Iterator[dict[str, object]]:
    """Measure followers while the server is killed, their delay, and a long output."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["RAI_HOME"] = f"{folder}/home"
        yield _killed(folder / "killed")
        yield _soon(folder / "soon")
        yield _whole(folder / "whole")


def _killed(folder: Path) -> dict[str, object]:
    """Kill the server at any moment while runs go on and are followed."""
    chance = random.Random(1)
    with _site(folder, "--slots", str(JOBS)) as site:
        ada = site.person("red", "ada")
        # As long as the kills take; cancelled after them.
        packed = direct.seal(folder / "p", UNTIL.replace("COUNT", "1000000"))
        with ada.client(PATIENCE_S) as client:
            ids = [direct.queue(client, packed) for _ in range(JOBS)]
            for run in ids:
                until(
                    lambda run=run: client.run(run).state is QueueState.RUNNING,
                    "it does not run",
                )
            homes = [folder / "follower" / str(n) for n in range(FOLLOWERS)]
            followers = [
                _follow(ada, home, ids[n % JOBS]) for n, home in enumerate(homes)
            ]
            away = []
            for _ in range(KILLS):
                time.sleep(chance.uniform(0.0, 1.0))
                site.kill()
                began = time.perf_counter()
                site.start()
                away.append(time.perf_counter() - began)
            for run in ids:
                client.cancel(run)
            ends = [direct.ended(client, run, 120.0) for run in ids]
        for one in followers:
            until(one.paths.record.exists, "a copy has no end", 120.0)
            one.check()
        same = sum(_same(site, one.paths) for one in followers)
        lines = [_counted(site.runs / run) for run in ids]
        starts = site.log.read_text().count('"step":"run_start"')
    return rows.row(
        f"kill -9 of the server {KILLS} times, {JOBS} jobs, {FOLLOWERS} followers",
        "each follower has every byte once, no job is disturbed or runs twice",
        same == FOLLOWERS
        and starts == len(list(filter(None, lines))) == JOBS
        and all(one.reason == "cancelled" for one in ends),
        same=same,
        starts=starts,
        lines=sum(lines),
        away_s=round(statistics.median(away), 2),
    )


def _soon(folder: Path) -> dict[str, object]:
    """Follow a run that prints the time, and see how late each line comes."""
    late: list[float] = []
    lock = threading.Lock()
    with _site(folder) as site:
        ada = site.person("red", "ada")
        packed = direct.seal(folder / "p", CLOCK.replace("COUNT", str(BEATS)))
        with ada.client(PATIENCE_S) as client:
            run = direct.queue(client, packed)
            threads = [
                threading.Thread(target=_listen, args=[ada, run, late, lock])
                for _ in range(LISTENERS)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    late.sort()
    p50, p99 = (late[int(len(late) * part)] for part in (0.5, 0.99))
    return rows.row(
        f"a line from a job to {LISTENERS} followers",
        f"p99 at most {MOST_LATE_S:g} s, none missing",
        p99 <= MOST_LATE_S and len(late) == LISTENERS * BEATS,
        lines=len(late),
        p50_s=round(p50, 3),
        p99_s=round(p99, 3),
        max_s=round(late[-1], 3),
    )


def _listen(person: Person, run: str, late: list[float], lock: threading.Lock) -> None:
    """Follow a run; note how late each line of its output is."""
    found, pending, have, over = [], b"", dict.fromkeys(FILES, 0), False
    with person.client(PATIENCE_S) as client:
        while not over:
            with client.tail(run, have, 20) as body:
                header = from_line(body.readline(MOST_HEADER_BYTES))
                said = {name: body.read(size) for name, size in header.sizes.items()}
            now, over = time.time(), header.over
            have = {name: have[name] + len(data) for name, data in said.items()}
            *whole, pending = (pending + said["stdout.log"]).split(b"\n")
            found += [now - float(one) for one in whole]
    with lock:
        late += found


def _whole(folder: Path) -> dict[str, object]:
    with _site(folder) as site:
        ada = site.person("red", "ada")
        packed = direct.seal(folder / "p", f"['seq {LINES}']")
        with ada.client(PATIENCE_S) as client:
            began = time.perf_counter()
            run = direct.queue(client, packed)
            follower = _follow(ada, folder / "follower", run)
            until(follower.paths.record.exists, "the copy has no end", 600.0)
            took_s = time.perf_counter() - began
            follower.check()
        wanted = hashlib.sha256()
        for number in range(1, LINES + 1):
            wanted.update(b"%d\n" % number)
        copied = hashlib.sha256(follower.paths.stdout.read_bytes())
        same = _same(site, follower.paths)
    return rows.row(
        f"{LINES:,} lines from a job to its client",
        "the copy's SHA-256 is that of what the job printed",
        same and copied.digest() == wanted.digest(),
        same=same,
        sha256=copied.hexdigest()[:16],
        seconds=round(took_s, 2),
    )


def _follow(person: Person, home: Path, run: str) -> Follower:
    paths = RunPaths(home / "runs" / run)
    paths.root.mkdir(parents=True)
    follower = Follower(paths, lambda: person.client(PATIENCE_S), direct.BOUNDS)
    follower.start()
    return follower


def _same(site: Site, copy: RunPaths) -> bool:
    origin = site.runs / copy.id
    return all(
        (copy.root / name).read_bytes() == (origin / name).read_bytes()
        for name in FILES
    )


def _counted(run: Path) -> int:
    """Return how many lines a job printed; 0 unless they count up from 1."""
    lines = (run / "stdout.log").read_text().splitlines()
    right = lines == [f"line {n}" for n in range(1, len(lines) + 1)]
    return len(lines) if right else 0


def _site(folder: Path, *options: str) -> AbstractContextManager[Site]:
    state = folder / "state"
    state.mkdir(parents=True, mode=0o700)
    (state / "server.yml").write_text(RULES)
    return serving(folder, *options)
