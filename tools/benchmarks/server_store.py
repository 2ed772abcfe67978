"""Measure a server's store: with 40,000 runs against few, and claims by processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from msgspec.structs import replace
from sqlalchemy import insert, text

from runner.core import Reason
from runner.core.wire import QueueState, Scope
from runner.server.database import Store, open_store, tables
from runner.server.database.accounts import Invitation
from runner.server.scheduling import QueueRow
from tests.kit import postgres
from tools.benchmarks import rows

RUNS = 40_000
FEW = 200
TEAMS = 50
DAY_S = 86_400.0
TERM_S = 120 * DAY_S
NOW = 1_800_000_000.0
ROUNDS = 60
RATIO_LIMIT = 2.0
PARCEL = os.urandom(1500) * 2

CLAIMED = 1000
DOOMS = (10, 30, -1, -1, -1, -1, -1, -1)
"""After how many claims each process is killed; -1 for not."""

SPAWN = multiprocessing.get_context("spawn")


def measure() -> Iterator[dict[str, object]]:
    """Measure on SQLite, and on PostgreSQL where it is installed."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        names = ["few", "many", "claims"]
        databases = {"SQLite": [f"sqlite:///{folder}/{name}" for name in names]}
        if postgres.absent() is None:
            server = stack.enter_context(postgres.cluster(fsync=True))
            databases["PostgreSQL"] = [
                stack.enter_context(postgres.database(server)) for _ in names
            ]
        for name, (few, many, claimed) in databases.items():
            yield _calls(name, few, many)
            yield _claims(name, claimed)


def _calls(database: str, few: str, many: str) -> dict[str, object]:
    """Call each method in turns on a store of few runs and on one of many."""
    stores = {"few": open_store(few), "many": open_store(many)}
    fill(stores["few"], FEW)
    fill(stores["many"], RUNS)
    calls = {name: methods(store) for name, store in stores.items()}
    ratios: dict[str, float] = {}
    each_ms: dict[str, float] = {}
    for method in calls["many"]:
        ways = {name: calls[name][method] for name in stores}
        taken = rows.alternated(ways, ROUNDS)
        medians = {name: statistics.median(taken[name]) for name in stores}
        ratios[method] = round(medians["many"] / medians["few"], 2)
        each_ms[method] = round(1000 * medians["many"], 2)
    for store in stores.values():
        store.close()
    worst = max(ratios, key=lambda method: ratios[method])
    return rows.row(
        f"calls of a store with {RUNS} runs, {database}",
        f"each at most {RATIO_LIMIT:g} times as long as with {FEW}",
        ratios[worst] <= RATIO_LIMIT,
        worst=worst,
        ratios=ratios,
        median_ms=each_ms,
        load=os.getloadavg()[0],
    )


def fill(store: Store, count: int) -> None:
    """Add ended runs of 50 teams over a term, and 20 that wait or run now."""
    ended = (_ended(number, count) for number in range(count))
    fields = [c.name for c in tables.runs.c if c.name != "cancelled_at"]
    with store.writing() as link:
        while some := [row for _, row in zip(range(1000), ended, strict=False)]:
            values = [{name: getattr(row, name) for name in fields} for row in some]
            large = [{"run": row.id, "parcel": PARCEL, "secrets": ""} for row in some]
            link.execute(insert(tables.runs), values)
            link.execute(insert(tables.parcels), large)
        if link.dialect.name == "postgresql":  # which does so by itself after a while
            link.execute(text("ANALYZE"))
    for number in range(20):
        store.add_run(replace(_new(), team=f"team-{number}", queued_at=NOW))
    for row in store.unfinished()[:4]:
        store.claim(row.id, 0)
        store.started(row.id, NOW)


def _ended(number: int, count: int) -> QueueRow:
    at = NOW - TERM_S * (count - number) / RUNS
    return replace(
        _new(),
        team=f"team-{number % TEAMS}",
        queued_at=at,
        started_at=at + 60,
        ended_at=at + 120,
        state=QueueState.ENDED,
        reason=Reason.DONE,
        attempt=1,
        bytes=1_000_000,
        secrets="",
        parcel=b"",
    )


def _new() -> QueueRow:
    return QueueRow(
        id=os.urandom(5).hex(),
        team="team-1",
        person="ada",
        role="student",
        digest=os.urandom(32).hex(),
        sha256=os.urandom(32).hex(),
        parcel=PARCEL,
        queued_at=NOW,
        project="net",
        secrets="{}",
    )


def methods(store: Store) -> dict[str, Callable[[], object]]:
    """Return what a server calls often, each to be called again and again."""
    (code,) = store.invite([Invitation("team-1", "ada")], NOW, DAY_S)
    made = store.redeem(code.code, "", NOW, None, (Scope.RUN,))
    assert made is not None
    token, who = made
    page = store.runs("team-1", limit=2)
    added: list[str] = []
    claimed: list[str] = []
    started: list[str] = []
    ended: list[str] = []
    whys = iter(range(10**9))

    def add() -> None:
        row = _new()
        store.add_run(row)
        added.append(row.id)

    def take(source: list[str], to: list[str], act: Callable[[str], object]) -> None:
        act(source[0])
        to.append(source.pop(0))

    def upload() -> None:
        name = os.urandom(5).hex()
        store.add_upload("team-1", name, 1, NOW)

    return {
        "add_run": add,
        "claim": lambda: take(added, claimed, lambda name: store.claim(name, 0)),
        "started": lambda: take(claimed, started, lambda n: store.started(n, NOW)),
        "ended": lambda: take(
            started, ended, lambda n: store.ended(n, NOW, Reason.DONE, "", 1)
        ),
        "removed": lambda: store.removed([ended.pop()]),
        "wait_reason": lambda: store.wait_reason(
            {row.id: f"{next(whys)} ahead" for row in store.unfinished()}
        ),
        "unfinished": store.unfinished,
        "run": lambda: store.run(page[0].id),
        "runs of a team": lambda: store.runs("team-1", limit=4),
        "runs that ended": lambda: store.runs(None, QueueState.ENDED, limit=50),
        "runs of a team that wait": lambda: store.runs("team-1", QueueState.WAITING),
        "next page of runs": lambda: store.runs("team-1", None, page[0].id, 1),
        "use": lambda: store.use("team-1", NOW - DAY_S),
        "started_since": lambda: store.started_since(NOW),
        "removable": lambda: store.removable(0.0),
        "changes": store.changes,
        "identify": lambda: store.identify(token, NOW),
        "valid": lambda: store.valid(who.token_id, NOW),
        "add_upload": upload,
        "remove_uploads": lambda: store.remove_uploads(0.0, lambda *_: None),
        "check": store.check,
    }


def _claims(database: str, url: str) -> dict[str, object]:
    """Let processes claim the same runs, of which two are killed meanwhile."""
    store = open_store(url)
    names = [f"{number:010}" for number in range(CLAIMED)]
    for name in names:
        store.add_run(replace(_new(), id=name))
    with tempfile.TemporaryDirectory() as folder:
        outs = [Path(folder, str(number)) for number in range(len(DOOMS))]
        barrier = SPAWN.Barrier(len(DOOMS) + 1)
        workers = [
            SPAWN.Process(target=_claim, args=(url, out, doom, place, barrier))
            for place, (out, doom) in enumerate(zip(outs, DOOMS, strict=True))
        ]
        for worker in workers:
            worker.start()
        barrier.wait()
        began = time.perf_counter()
        for worker in workers:
            worker.join()
        took_s = time.perf_counter() - began
        written = Counter(" ".join(out.read_text() for out in outs).split())
    states = Counter(row.state for row in store.unfinished())
    store.close()
    killed = sum(worker.exitcode == -signal.SIGKILL for worker in workers)
    twice = sum(count > 1 for count in written.values())
    return rows.row(
        f"claims by {len(DOOMS)} processes, {killed} of them killed, {database}",
        "each run claimed once",
        twice == 0 and killed == 2 and states == {QueueState.STARTING: CLAIMED},
        claims_a_second=round(CLAIMED / took_s),
        claimed_twice=twice,
        load=os.getloadavg()[0],
    )


def _claim(url: str, out: Path, doom: int, place: int, barrier: object) -> None:
    store = open_store(url)
    barrier.wait()  # type: ignore[attr-defined]
    done = 0
    with out.open("w", buffering=1) as file:
        # Each begins elsewhere, and goes on to what is left of the others.
        for number in range(CLAIMED):
            if done == doom:
                os.kill(os.getpid(), signal.SIGKILL)
            name = f"{(number + place * CLAIMED // len(DOOMS)) % CLAIMED:010}"
            if store.claim(name, 0):
                file.write(f"{name}\n")
                done += 1
    store.close()
