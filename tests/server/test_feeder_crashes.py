"""A server that is killed between any two calls: nothing is lost or runs twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.core import Reason
from runner.core.wire import QueueState
from runner.server.feeder import MOST_ATTEMPTS
from runner.server.scheduling import QueueRow
from tests.kit.queued import Queue

pytestmark = pytest.mark.lengthy

RUNS = [f"{number:010x}" for number in range(5)]
STORE = (
    *("changes", "unfinished", "started_since", "drained", "run", "claim"),
    *("unclaim", "started", "ended", "wait_reason"),
)
RUNS_ASKED = ("capacity", "look", "start", "cancel")


class KilledError(BaseException):
    """The process ends here: nothing handles it."""


class Killer:
    """Ends the process before or after the call of a number."""

    def __init__(
        self, queue: Queue, monkeypatch: pytest.MonkeyPatch, *more: str
    ) -> None:
        self.queue = queue
        self.calls = 0
        self.at: int | None = None
        self.before = True
        self.armed = False
        for owner, names in ((queue.store, (*STORE, *more)), (queue.runs, RUNS_ASKED)):
            for name in names:
                monkeypatch.setattr(owner, name, self._counted(getattr(owner, name)))

    def step(self) -> None:
        """Let the server take a step; if that kills it, another goes on."""
        self.armed = True
        try:
            self.queue.step()
        except KilledError:
            self.queue.restart()
        finally:
            self.armed = False

    def _counted(self, call):
        def counted(*args, **other):
            if not self.armed:
                return call(*args, **other)
            self.calls += 1
            now = self.calls == self.at
            if now and self.before:
                raise KilledError
            result = call(*args, **other)
            if now:
                raise KilledError
            return result

        return counted


def life(queue: Queue) -> Iterator[None]:
    """Yield at each step of a queue's life: ends, a cancel, a refusal, a lost run."""
    for name in RUNS:
        queue.put(name)
    yield
    for number, name in enumerate(RUNS):
        for _ in range(4):
            yield
        known = queue.runs.known.get(name)
        if known is None or known.ended:
            continue
        if number == 1:
            queue.store.ask_cancel(name, queue.now, "")
            yield
            queue.runs.end(name, Reason.CANCELLED)
        elif number == 2:
            queue.runs.lose(name)
        else:
            queue.runs.end(name)
        yield
    for _ in range(60):
        left = [name for name in RUNS if queue.state(name) is not QueueState.ENDED]
        for name in left:
            if name in queue.runs.known and not queue.runs.known[name].ended:
                queue.runs.end(name)
        if not left:
            return
        yield


def checked(queue: Queue) -> None:
    rows: list[QueueRow] = [queue.row(name) for name in RUNS]
    assert [row.state for row in rows] == [QueueState.ENDED] * len(RUNS)
    assert sorted(queue.runs.workers) == RUNS
    assert queue.store.ends == dict.fromkeys(RUNS, 1)
    done = Reason.DONE
    assert [row.reason for row in rows] == [
        *(done, Reason.CANCELLED, Reason.RUNNER_LOST, done, done),
    ]
    assert {row.secrets for row in rows} == {""}


@pytest.fixture
def made(tmp_path, monkeypatch):
    made = []

    def make(name: str) -> tuple[Queue, Killer]:
        (tmp_path / name).mkdir()
        queue = Queue(tmp_path / name)
        made.append(queue)
        return queue, Killer(queue, monkeypatch)

    yield make
    for queue in made:
        queue.close()


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 29])
def test_a_server_may_be_killed_before_each_call(made, every):
    queue, killer = made("whole")
    for _ in life(queue):
        killer.step()
    checked(queue)
    moments = killer.calls
    assert moments > 100
    # Before a call is also after the one before it.
    for at in range(every, moments + 1, every):
        queue, killer = made(f"{at}")
        killer.at = at
        for _ in life(queue):
            killer.step()
        checked(queue)
        queue.close()


def test_a_server_may_be_killed_again_and_again(made):
    for every in (2, 5, 11):
        queue, killer = made(f"every-{every}")
        for number, _ in enumerate(life(queue)):
            # At last it is left alone for long enough to finish.
            killer.at = killer.calls + every if number < 25 else None
            killer.before = number % 2 == 0
            killer.step()
        assert sorted(queue.runs.workers) == RUNS
        assert queue.store.ends == dict.fromkeys(RUNS, 1)


FAULTS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "step",
                "restart",
                "unlooked",
                "looked",
                "failing",
                "dying",
                "slow",
                "quick",
                "end",
                "cancel",
            ]
        ),
        st.integers(0, 4),
    ),
    max_size=60,
)


@settings(max_examples=10)
@given(FAULTS)
def test_whatever_fails_every_run_ends_once_and_has_one_worker_at_most(faults):
    with TemporaryDirectory() as folder:
        queue = Queue(Path(folder))
        try:
            for name in RUNS:
                queue.put(name)
            for fault, number in faults:
                happens(queue, fault, RUNS[number])
                queue.step()
            queue.runs.looked = queue.runs.begins = True
            queue.runs.failing = 0
            for _ in range(600):
                for name, known in list(queue.runs.known.items()):
                    if known.claimed and not known.ended:
                        queue.runs.end(name)
                queue.step(after_s=5.0)
                if not queue.store.unfinished():
                    break
            for name in RUNS:
                assert queue.state(name) is QueueState.ENDED
                assert queue.runs.workers.count(name) <= 1
                began, row = name in queue.runs.workers, queue.row(name)
                assert began or row.cancelled or row.attempt == MOST_ATTEMPTS
            assert queue.store.ends.total() <= len(RUNS)
        finally:
            queue.close()


def happens(queue: Queue, fault: str, name: str) -> None:
    known = queue.runs.known.get(name)
    match fault:
        case "restart":
            queue.restart()
        case "unlooked" | "looked":
            queue.runs.looked = fault == "looked"
        case "failing":
            queue.runs.failing += 1
        case "dying":
            queue.runs.dying += 1
        case "slow" | "quick":
            queue.runs.begins = fault == "quick"
        case "end" if known and known.claimed and not known.ended:
            queue.runs.end(name)
        case "cancel":
            queue.store.ask_cancel(name, queue.now, "")
