"""The feeder: from the queue to workers, and back with what became of runs."""

from __future__ import annotations

import threading
import time

import pytest
from msgspec.structs import replace

from runner.core import GIB, Problem, Reason, Severity
from runner.core.errors import BusyError
from runner.core.request import Answer
from runner.core.wire import QueueState
from runner.core.work import Secrets
from runner.server import feeder as feeding
from runner.server.feeder import Feeder
from tests.kit.queued import NOW, RULES, Queue

WAITING, STARTING, RUNNING, ENDED = QueueState
A, B, C, D = (f"{number:010x}" for number in range(4))


@pytest.fixture
def queue(tmp_path):
    one = Queue(tmp_path)
    yield one
    one.close()


def test_a_run_goes_to_a_worker_and_ends_with_what_its_record_says(queue):
    queue.put(A)
    queue.step()
    assert queue.state(A) is STARTING
    ((_, asked),) = queue.runs.asked
    assert (asked.engine, asked.terms.settings) == ("local", {})
    assert asked.secret == Secrets({"KEY": "hunter2"}, "rai: {}")
    assert asked.terms.allowed == RULES.role("student").policy
    paths = queue.runs.paths(A)
    assert paths.source.read_bytes() == b"packed"
    assert paths.parcel.read_bytes() == queue.row(A).parcel
    queue.step()
    assert queue.state(A) is RUNNING
    assert queue.row(A).secrets == ""
    queue.runs.end(A, Reason.TIME_LIMIT, kept_bytes=77)
    queue.step()
    row = queue.row(A)
    assert (row.state, row.reason, row.bytes) == (ENDED, Reason.TIME_LIMIT, 77)
    assert row.ended_at == queue.runs.known[A].ended_at
    assert queue.steps == ["run_start"]


def test_what_does_not_fit_waits_and_knows_why(queue):
    for name in (A, B, C, D):
        queue.put(name)
    queue.put("00000000ff", gpus=1)
    queue.step(2)
    assert queue.runs.workers == [A, B]
    assert queue.row(C).why == "no slot is free: 2 in use"
    assert queue.row(D).why == "1 run before it"
    assert queue.row("00000000ff").why == "it needs a GPU, and this server has none"
    assert queue.feeder.decision.standings[D].ahead == 1
    queue.runs.end(A)
    queue.step(2)
    assert queue.runs.workers == [A, B, C]


def test_a_start_that_is_refused_ends_the_run_with_the_worker_s_words(queue):
    place = Problem("the image a/b is not allowed", hint="use debian")
    queue.runs.refusal = Answer((place, Problem("and no GPU")), Reason.NOT_ALLOWED)
    queue.put(A)
    queue.step(2)
    row = queue.row(A)
    assert (row.state, row.reason) == (ENDED, Reason.NOT_ALLOWED)
    assert row.why == "the image a/b is not allowed; use debian\nand no GPU"
    assert row.secrets == ""


@pytest.mark.parametrize(("later_s", "steps"), [(0, 12), (-3600, 2)])
def test_a_run_that_finds_no_room_is_started_later_even_by_a_clock_set_back(
    queue, later_s, steps
):
    queue.runs.refusal = Answer((Problem("no space left"),), Reason.BUSY)
    queue.put(A)
    queue.step(2)
    assert queue.state(A) is WAITING
    queue.runs.refusal = None
    queue.now += later_s
    queue.step(steps)
    assert queue.runs.workers == [A]
    assert queue.state(A) is RUNNING


def test_without_runs_the_machine_is_looked_at_now_and_then(queue, monkeypatch):
    asked = []
    usual = queue.runs.capacity
    monkeypatch.setattr(queue.runs, "capacity", lambda: asked.append(1) or usual())
    queue.step(100, after_s=0.5)
    assert len(asked) == 10
    queue.put(A)
    queue.step(2, after_s=0.5)
    assert len(asked) == 12


@pytest.mark.parametrize("begun", [True, False])
def test_a_start_that_fails_is_settled_by_the_next_look(queue, begun):
    queue.runs.failing = 1
    queue.runs.begins = begun
    queue.put(A)
    queue.step()
    queue.runs.begins = True
    queue.step(15)
    assert queue.state(A) is RUNNING
    assert queue.runs.workers == [A]
    assert len(queue.runs.asked) == (1 if begun else 2)


def test_a_run_that_no_worker_claims_waits_again_and_ends_at_last(queue):
    queue.runs.begins = False
    queue.put(A)
    queue.step(60, after_s=10.0)
    row = queue.row(A)
    assert (row.state, row.reason) == (ENDED, Reason.RUNNER_LOST)
    assert row.why == "no worker began it, 3 times"
    assert len(queue.runs.asked) == 3
    assert queue.steps.count("run_waits_again") == 2


@pytest.mark.parametrize("dying", [2, 3])
def test_a_worker_that_dies_before_its_claim_is_started_again_at_once(queue, dying):
    queue.runs.dying = dying
    queue.put(A)
    queue.step(8, after_s=0.01)
    row = queue.row(A)
    assert len(queue.runs.asked) == 3
    if dying == 2:
        assert (row.state, queue.runs.workers) == (RUNNING, [A])
    else:
        assert (row.state, row.reason) == (ENDED, Reason.RUNNER_LOST)
        assert row.why == "its worker ended before it began the run, 3 times"


def test_a_run_whose_worker_died_is_lost(queue):
    queue.put(A)
    queue.step(2)
    queue.runs.lose(A)
    queue.step()
    assert (queue.state(A), queue.row(A).reason) == (ENDED, Reason.RUNNER_LOST)


def test_a_run_whose_folder_is_gone_is_lost_after_a_while(queue):
    queue.put(A)
    queue.step(2)
    queue.runs.known.clear()
    queue.step(5)
    assert queue.state(A) is RUNNING
    queue.step(15)
    assert (queue.state(A), queue.row(A).reason) == (ENDED, Reason.RUNNER_LOST)
    assert queue.row(A).why == "the folder of this run is gone"


def test_before_the_first_look_nothing_starts_and_ends_are_told(queue):
    queue.put(A)
    queue.step(2)
    queue.runs.looked = False
    queue.restart()
    queue.put(B)
    queue.runs.end(A)
    queue.step(2)
    assert queue.row(B).why == "the server has not looked at its engines and GPUs yet"
    assert (queue.state(A), queue.state(B)) == (ENDED, WAITING)
    queue.runs.looked = True
    queue.step(2)
    assert queue.state(B) is RUNNING


def test_what_can_run_is_asked_for_at_each_step_until_it_is_known(queue):
    queue.runs.looked = False
    queue.step()
    assert queue.feeder.facts is None
    queue.runs.looked = True
    queue.step(after_s=0.5)
    assert queue.feeder.facts is not None


def test_nothing_starts_on_a_drained_server_or_without_disk(queue):
    queue.put(A)
    queue.store.drain("a new driver")
    queue.step()
    assert queue.row(A).why == "the server is drained: a new driver"
    queue.store.drain("")
    queue.runs.disk_free = 3 * GIB + 7
    queue.step()
    text = "only 3GiB of disk are left for runs, which need 5GiB"
    assert queue.row(A).why == text
    queue.runs.disk_free = 5 * GIB
    queue.runs.problems = (Problem("no engine can serve"),)
    queue.step()
    assert queue.row(A).why == "the server can run nothing: no engine can serve"
    queue.runs.problems = (Problem("old", severity=Severity.WARNING),)
    queue.step(2)
    assert queue.state(A) is RUNNING


def test_a_cancel_is_asked_for_until_the_run_has_ended(queue):
    queue.put(A)
    queue.step(2)
    queue.store.ask_cancel(A, queue.now, "by ada")
    queue.step(12)
    assert queue.runs.cancels == [A, A, A]
    queue.runs.end(A, Reason.CANCELLED)
    queue.step(10)
    assert queue.runs.cancels == [A, A, A]
    assert queue.row(A).reason is Reason.CANCELLED


def test_a_run_that_is_cancelled_while_it_starts_is_not_started_again(queue):
    queue.runs.failing = 1
    queue.runs.begins = False
    queue.put(A)
    queue.step()
    queue.runs.forget(A)
    queue.store.ask_cancel(A, queue.now, "")
    queue.restart()
    queue.step(20)
    assert (queue.state(A), queue.row(A).reason) == (ENDED, Reason.CANCELLED)
    assert queue.runs.workers == []
    assert len(queue.runs.asked) == 1


def test_a_run_without_its_project_ends_and_says_so(queue):
    queue.put(A)
    queue.upload().unlink()
    queue.step(2)
    row = queue.row(A)
    assert (row.state, row.reason) == (ENDED, Reason.INTERNAL)
    assert row.why == (
        "the server no longer has the packed project of this run; send it again"
    )


def test_a_start_that_takes_long_keeps_no_other_from_starting(queue):
    slow = Feeder(queue.store, queue.runs, queue.rules, queue.folder)
    queue.runs.gate.clear()
    queue.put(A)
    slow.step(NOW + 1)
    queue.put(B)
    slow.step(NOW + 2)
    assert (queue.state(A), queue.state(B)) == (STARTING, STARTING)
    for later in range(3, 30):
        slow.step(NOW + later)
    queue.runs.gate.set()
    until = time.monotonic() + 30
    while {queue.state(A), queue.state(B)} != {RUNNING}:
        assert time.monotonic() < until
        slow.step(NOW + 40)
        time.sleep(0.01)
    assert sorted(queue.runs.workers) == [A, B]
    assert len(queue.runs.asked) == 2


def test_those_far_behind_are_not_written_at_each_start(queue):
    names = [f"{number:010x}" for number in range(60)]
    for name in names:
        queue.put(name)
    queue.step(2)
    assert queue.row(names[10]).why == "8 runs before it"
    assert queue.row(names[50]).why == "many runs before it"
    assert queue.feeder.decision.standings[names[50]].why == "48 runs before it"
    before = queue.row(names[50]).changed
    queue.runs.end(names[0])
    queue.step(2)
    assert queue.row(names[10]).why == "7 runs before it"
    assert queue.row(names[50]).changed == before


def test_estimates_and_turns_are_remembered_over_a_restart(queue):
    queue.runs.begins = False
    queue.put(A)
    queue.step()
    queue.runs.begin(A, at=queue.now)
    queue.step()
    queue.runs.end(A)
    ended = replace(queue.runs.known[A], ended_at=queue.now + 40)
    queue.runs.known[A] = ended
    queue.step()
    for name in (B, C, D):
        queue.put(name)
    queue.restart()
    queue.step()
    assert queue.feeder.decision.standings[D].estimate_s == 41.0
    queue.put("00000000ff", team="blue")
    queue.step()
    assert list(queue.feeder.decision.standings) == ["00000000ff", D]


def test_the_thread_goes_on_whatever_fails(queue, monkeypatch):
    monkeypatch.setattr(feeding, "STEP_S", 0.01)
    feeder = queue.fresh()
    failing = iter([BusyError("locked"), ValueError("odd"), OSError("io")])
    usual = queue.store.changes

    def changes() -> int:
        for error in failing:
            raise error
        return usual()

    monkeypatch.setattr(queue.store, "changes", changes)
    stop = threading.Event()
    thread = threading.Thread(target=feeder.run, args=(stop,))
    thread.start()
    queue.put(A)
    feeder.wake()
    until = time.monotonic() + 30
    while queue.state(A) is not RUNNING and time.monotonic() < until:
        time.sleep(0.01)
    stop.set()
    feeder.wake()
    thread.join(30)
    assert not thread.is_alive()
    assert queue.state(A) is RUNNING
    assert queue.steps.count("feeder_failed") == 3
