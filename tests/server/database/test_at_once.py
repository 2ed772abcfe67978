"""Many threads and processes at one store: each step is taken once."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runner.core import Reason
from runner.core.wire import QueueState
from runner.server.database import Store, open_store
from runner.server.database.accounts import Invitation
from tests.kit.store_rows import DAY_S, NOW, RUN_ONLY, run, token

RUNS = 60
WORKERS = THREADS = 4
pytestmark = pytest.mark.lengthy
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload([__name__])


def names(count: int = RUNS) -> list[str]:
    return [f"{number:010}" for number in range(count)]


def fill(store: Store, count: int = RUNS) -> None:
    for name in names(count):
        store.add_run(run(name))


def together(work: Callable[[int], list[str]], threads: int = THREADS) -> list[str]:
    """Do the same in several threads; return all that they did."""
    with ThreadPoolExecutor(threads) as pool:
        return [name for done in pool.map(work, range(threads)) for name in done]


def claims(url: str, out: str, doom: int) -> None:
    """Claim all that can be; write each to a file, and die after ``doom`` of them."""
    store = open_store(url)
    with Path(out).open("w", buffering=1) as file:
        for count, name in enumerate(names()):
            if count == doom:
                os.kill(os.getpid(), signal.SIGKILL)
            if store.claim(name, 0):
                file.write(f"{name}\n")
    store.close()


def test_threads_claim_each_run_once(store: Store):
    fill(store)
    claimed = together(lambda _: [name for name in names() if store.claim(name, 0)])
    assert sorted(claimed) == names()
    assert {row.state for row in store.unfinished()} == {QueueState.STARTING}
    assert {row.attempt for row in store.unfinished()} == {1}
    numbers = [row.changed for row in store.unfinished()]
    assert len(set(numbers)) == RUNS
    assert store.changes() == max(numbers) == 2 * RUNS


def test_processes_of_which_some_are_killed_claim_each_run_once(
    store: Store, url: str, tmp_path: Path
):
    fill(store)
    dooms = (10, 20, -1, -1)
    outs = [tmp_path / str(number) for number in range(WORKERS)]
    workers = [
        FORKED.Process(target=claims, args=(url, str(out), doom))
        for out, doom in zip(outs, dooms, strict=True)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [w.exitcode for w in workers] == [-signal.SIGKILL, -signal.SIGKILL, 0, 0]
    claimed = [name for out in outs for name in out.read_text().split()]
    # A process may be killed after a claim and before it is written, never between.
    assert max(Counter(claimed).values()) == 1
    states = {row.id: row.state for row in store.unfinished()}
    assert set(states.values()) == {QueueState.STARTING}
    assert sorted(states) == names()


def test_a_run_that_many_add_is_one_and_one_that_many_end_ends_once(store: Store):
    new = together(lambda _: [n for n in names(25) if store.add_run(run(n))[1]])
    assert sorted(new) == names(25)
    assert store.changes() == 25

    def ends(number: int) -> list[str]:
        if number % 2:
            return [n for n in names(25) if store.ended(n, NOW, None, kept_bytes=3)]
        for name in reversed(names(25)):
            store.ask_cancel(name, NOW, "no more")
        return []

    together(ends)
    rows = [store.run(name) for name in names(25)]
    assert {row and row.state for row in rows} == {QueueState.ENDED}
    cancelled = [row for row in rows if row and row.reason is Reason.CANCELLED]
    assert store.use("red", 0).bytes == 3 * (25 - len(cancelled))


def test_people_invited_at_once_in_any_order_are_there_and_a_code_is_good_once(
    store: Store,
):
    everybody = [Invitation(f"team {n % 7}", f"person {n}") for n in range(20)]

    def invites(number: int) -> list[str]:
        order = everybody[:: -1 if number % 2 else 1]
        return [one.code for one in store.invite(order, NOW, DAY_S)]

    codes = together(invites)

    def enters(_: int) -> list[str]:
        return [one for one in codes if store.redeem(one, "", NOW, None, RUN_ONLY)]

    assert len(together(enters)) == len(store.tokens()) == len(store.people()) == 20


def test_changes_of_many_kinds_wait_for_each_other(store: Store):
    """Nobody is told that the store is in use, and no two wait for ever."""
    fill(store, 20)
    kept = token(store)
    every = names(20)

    def works(number: int) -> list[str]:
        order = every[:: -1 if number % 2 else 1]
        store.wait_reason(dict.fromkeys(order, f"because of {number}"))
        share = [name for name in order if int(name) % THREADS == number]
        for name in share:
            assert store.identify(kept, NOW + 100 * number)
            assert store.claim(name, 0)
            store.started(name, NOW)
            assert store.ended(name, NOW, None, kept_bytes=1)
            store.add_upload("red", name, 1000, NOW)
        store.removed(order)
        return share

    assert sorted(together(works)) == every
    store.removed(every)
    assert store.unfinished() == []
    assert store.removable(NOW * 2) == []
    assert store.use("red", 0).bytes == 20_000
