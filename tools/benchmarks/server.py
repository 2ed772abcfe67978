"""A server used by many: nothing lost, nothing late, nobody held up, and small."""

from __future__ import annotations

import json
import os
import re
import select
import ssl
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from http.client import HTTPSConnection
from pathlib import Path

from msgspec.structs import replace

from runner.client.api import ServerClient
from runner.core import Reason
from runner.core.addresses import host_and_port
from runner.core.wire import API, RemoteRun
from runner.server.database import open_store
from runner.store import claim
from runner.store.paths import RunPaths
from tests.kit import direct
from tests.kit.direct import SealedProject
from tests.kit.site import Person, Site, serving
from tests.kit.waiting import until
from tools.benchmarks import rows

CLIENTS = 50
RUNS_EACH = int(os.environ.get("RAI_BENCH_RUNS", "20"))
PATIENCE_S = 120.0
TRUE = '["true"]'
NAP = '["sleep 0.3"]'
MOST_IDLE_MIB = 64.0
CLOSED = 3000
MOST_CLOSED_MIB = 10.0
MOST_NEXT_S = 0.1
NEXT, ADOPTED = 60, 6
LONG = '["sleep 4"]'
TICKS = os.sysconf("SC_CLK_TCK")
ONE_TEAMS = 50
OLD_RUNS = 40_000
FEW = 100
RULES = """\
roles:
  student: {at_once: none, a_day: none, waiting: 100000}
"""


def measure() -> Iterator[dict[str, object]]:
    """Measure the queue under many clients, fairness, memory, and a long history."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["RAI_HOME"] = f"{folder}/home"
        yield _idle(folder / "idle")
        yield _closed(folder / "closed")
        yield _many(folder / "many")
        yield _turns(folder / "turns")
        yield _next(folder / "next")
        yield _long_history(folder / "history")


def _idle(folder: Path) -> dict[str, object]:
    with _site(folder) as site:
        ada = site.person("red", "ada")
        with ada.client() as client:
            run = direct.queue(client, direct.seal(folder / "p", TRUE))
            direct.ended(client, run)
        time.sleep(5.0)
        assert site.process
        server = memory(site.process.pid)
    return rows.row(
        "an idle server, after a run",
        f"at most {MOST_IDLE_MIB:g} MiB resident",
        server["rss_mib"] <= MOST_IDLE_MIB,
        server=server,
    )


def _closed(folder: Path) -> dict[str, object]:
    """Open and close connections by TLS, each after a request."""
    with _site(folder) as site:
        assert site.process
        _connect(site, FEW)
        before = memory(site.process.pid)
        _connect(site, CLOSED)
        after = memory(site.process.pid)
    more = after["rss_mib"] - before["rss_mib"]
    return rows.row(
        f"{CLOSED:,} closed connections by TLS",
        f"at most {MOST_CLOSED_MIB:g} MiB more resident",
        more <= MOST_CLOSED_MIB,
        more_mib=round(more, 1),
        before=before,
        after=after,
    )


def _connect(site: Site, times: int) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for _ in range(times):
        link = HTTPSConnection(*host_and_port(site.url), context=context)
        with closing(link):
            link.request("GET", API + "/")
            assert link.getresponse().read()


def _many(folder: Path) -> dict[str, object]:
    """Queue runs from many clients at once, each request twice."""
    with _site(folder, "--slots", "4") as site:
        people = _people(site, CLIENTS)
        packed = [
            direct.seal(folder / f"p{n}", f'["echo {n}"]') for n in range(CLIENTS)
        ]
        wanted: list[list[str]] = []
        began = time.perf_counter()
        with ThreadPoolExecutor(CLIENTS) as pool:
            wanted += pool.map(_queued, people, packed)
        queued_s = time.perf_counter() - began
        ids = {run for each in wanted for run in each}
        found: dict[str, RemoteRun] = {}
        for person, each in zip(people, wanted, strict=True):
            with person.client(PATIENCE_S) as client:
                for run in each:
                    found[run] = direct.ended(client, run, 1800.0)
        took_s = time.perf_counter() - began
        done = [one for one in found.values() if one.reason == "done"]
        kept = {path.name for path in site.runs.iterdir()}
        right = sum(
            (site.runs / run / "stdout.log").read_text() == f"{n}\n"
            for n, each in enumerate(wanted)
            for run in each
        )
    return rows.row(
        f"{CLIENTS} clients queue {RUNS_EACH} runs each, every request twice",
        "none lost, a repeated request is the same run",
        len(done) == len(ids) == right == CLIENTS * RUNS_EACH and kept == ids,
        runs=len(ids),
        done=len(done),
        folders=len(kept),
        queued_s=round(queued_s, 1),
        all_done_s=round(took_s, 1),
    )


def _queued(person: Person, packed: SealedProject) -> list[str]:
    found = []
    with person.client(PATIENCE_S) as client:
        for _ in range(RUNS_EACH):
            run = direct.queue(client, packed)
            assert direct.queue(client, packed, run) == run
            found.append(run)
    return found


def _turns(folder: Path) -> dict[str, object]:
    """Let one team queue many runs, and then another team one."""
    with _site(folder, "--slots", "1") as site:
        red, blue = site.person("red", "ada"), site.person("blue", "bo")
        packed = direct.seal(folder / "p", NAP)
        with red.client(PATIENCE_S) as many, blue.client(PATIENCE_S) as one:
            ids = [direct.queue(many, packed) for _ in range(ONE_TEAMS)]
            until(lambda: many.run(ids[2]).started_at, "nothing starts")
            other = direct.queue(one, packed)
            queued_at = one.run(other).queued_at
            began = _started(one, other)
            starts = [_started(many, run) for run in ids[:20]]
    between = sum(queued_at < at < began for at in starts)
    return rows.row(
        f"one run of a team, after {ONE_TEAMS} of another",
        "at most one run of the other team starts before it",
        between <= 1,
        between=between,
        waited_s=round(began - queued_at, 2),
    )


def _started(client: ServerClient, run: str) -> float:
    until(lambda: client.run(run).started_at, f"{run} does not start", 300.0)
    return client.run(run).started_at or 0.0


def _next(folder: Path) -> dict[str, object]:
    """Time from each worker's end to the start of the next one's process.

    The last workers are adopted: their server is another than started them.
    """
    gaps: list[float] = []
    claims: list[float] = []
    with _site(folder, "--slots", "1") as site:
        ada = site.person("red", "ada", role="staff")
        packed = direct.seal(folder / "p", NAP)
        long = direct.seal(folder / "q", LONG)
        with ada.client(PATIENCE_S) as client:
            site.rai("drain")
            ids = [direct.queue(client, packed) for _ in range(NEXT)]
            ids += [direct.queue(client, long) for _ in range(ADOPTED)]
            site.rai("drain", "--off")
        ended_s = 0.0
        for number, run in enumerate(ids):
            paths = RunPaths(site.runs / run)
            until(lambda paths=paths: claim.holder(paths), "it does not start", 60.0)
            claimed_s = time.clock_gettime(time.CLOCK_BOOTTIME)
            held = claim.holder(paths)
            assert held
            if ended_s:
                gaps.append(int(held.process.started) / TICKS - ended_s)
                claims.append(claimed_s - ended_s)
            process = os.pidfd_open(held.process.pid)
            if number >= NEXT:
                site.kill()
                site.start()
            watched = select.poll()
            watched.register(process, select.POLLIN)
            watched.poll()
            ended_s = time.clock_gettime(time.CLOCK_BOOTTIME)
            os.close(process)
    p95 = sorted(gaps)[int(0.95 * len(gaps))]
    return rows.row(
        f"from a worker's end to the next one's start, {len(gaps)} times",
        f"at most {MOST_NEXT_S:g} s for 95 of 100",
        p95 <= MOST_NEXT_S,
        p95_s=round(p95, 3),
        median_s=round(statistics.median(gaps), 3),
        adopted_s=[round(one, 3) for one in gaps[NEXT:]],
        claimed_median_s=round(statistics.median(claims), 3),
    )


def _long_history(folder: Path) -> dict[str, object]:
    """Time requests of a new server, and of one that remembers many runs."""
    with _site(folder) as site:
        ada = site.person("red", "ada")
        packed = direct.seal(folder / "p", TRUE)
        with ada.client(PATIENCE_S) as client:
            first = direct.queue(client, packed)
            direct.ended(client, first)
            # As many of the team's own as a page of them has.
            _remember(site, client.run(first), range(0, 100 * FEW, 100))
            before = _timed(client, first, packed)
            _remember(site, client.run(first), range(OLD_RUNS))
            site.stop()
            site.start()
            after = _timed(client, first, packed)
    times = {name: round(after[name] / before[name], 2) for name in before}
    return rows.row(
        f"requests of a server that remembers {OLD_RUNS:,} runs",
        f"at most 2 times as slow as of one that remembers {FEW}",
        max(times.values()) <= 2.0,
        times=times,
        before_ms={name: round(1000 * s, 1) for name, s in before.items()},
        after_ms={name: round(1000 * s, 1) for name, s in after.items()},
    )


def _timed(client: ServerClient, run: str, packed: SealedProject) -> dict[str, float]:
    def a_run() -> None:
        direct.ended(client, direct.queue(client, packed))

    ways: dict[str, tuple[int, Callable[[], object]]] = {
        "me": (40, client.me),
        "run": (40, lambda: client.run(run)),
        "runs": (40, client.runs),
        "queue": (40, client.queue),
        "a run": (7, a_run),
    }
    found = {}
    for name, (times, way) in ways.items():
        taken = []
        for _ in range(times):
            began = time.perf_counter()
            way()
            taken.append(time.perf_counter() - began)
        found[name] = statistics.median(taken)
    return found


def _remember(site: Site, like: RemoteRun, numbers: Iterable[int]) -> None:
    """Add runs that ended long ago to the store of a server, if they are new."""
    store = open_store(f"sqlite:///{site.state}/store.sqlite")
    try:
        row = store.run(like.id)
        assert row
        for number in numbers:
            # Of many teams, and of earlier days.
            team = row.team if number % 100 == 0 else f"team {number % 100}"
            at = row.queued_at - 2 * 86_400 - number
            run = f"{number:010x}"
            store.add_run(
                replace(row, id=run, team=team, digest=run, queued_at=at, parcel=b"{}")
            )
            store.ended(run, at + 1, Reason.DONE)
    finally:
        store.close()


def _site(folder: Path, *options: str) -> AbstractContextManager[Site]:
    state = folder / "state"
    state.mkdir(parents=True, mode=0o700)
    (state / "server.yml").write_text(RULES)
    return serving(folder, *options)


def _people(site: Site, number: int) -> list[Person]:
    table = "".join(f"team {n},person {n}\n" for n in range(number))
    done = site.rai("invite", "-", "--json", input=table)
    codes = json.loads(done.stdout)["codes"]
    return [site.joined(one["team"], one["person"], one["code"]) for one in codes]


def memory(pid: int) -> dict[str, float]:
    """Return the resident and proportional memory of a process, in MiB."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = dict(re.findall(r"^(Rss|Pss):\s+(\d+) kB", text, re.M))
    return {
        f"{name.lower()}_mib": round(int(kib) / 1024, 1) for name, kib in found.items()
    }
