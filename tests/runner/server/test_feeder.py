"""The feeder: from the queue to the job host, and back with what became of runs."""

from __future__ import annotations

import threading
import time
from datetime import datetime

import pytest
from msgspec.structs import replace

from runner.core import GIB, Problem, Reason, Severity
from runner.core.errors import BusyError
from runner.core.units import DAY_S
from runner.scheduling.roles import Role, ServerRules
from runner.server import feeder as feeding
from runner.server.feeder import Feeder
from runner.wire.host import HostAnswer
from runner.wire.remote_runs import QueueState
from tests.runner.server.queued import NOW, RULES, Queue

WAITING, STARTING, RUNNING, ENDED = QueueState
A, B, C, D = (f"{number:010x}" for number in range(4))


@pytest.fixture
def queue(tmp_path):
    one = Queue(tmp_path)
    yield one
    one.close()


def test_a_run_goes_to_the_host_and_ends_with_what_it_says(queue):
    queue.put(A)
    queue.step()
    assert queue.state(A) is STARTING
    (asked,) = queue.host.asked
    assert asked.settings == {"RAI_ENGINE": "local"}
    assert (asked.spec_text, asked.secrets) == ("rai: {}", {"KEY": "hunter2"})
    assert asked.allowed == RULES.role("student").policy
    paths = queue.host.paths(A)
    assert paths.source.read_bytes() == b"packed"
    assert paths.parcel.read_bytes() == queue.row(A).parcel
    queue.step()
    assert queue.state(A) is RUNNING
    assert queue.row(A).secrets == ""
    assert not list((queue.folder / "starting").iterdir())
    queue.host.end(A, Reason.TIME_LIMIT, kept_bytes=77)
    queue.step()
    row = queue.row(A)
    assert (row.state, row.reason, row.bytes) == (ENDED, Reason.TIME_LIMIT, 77)
    assert row.ended_at == queue.host.known[A].ended_at
    assert queue.steps == ["run_start"]


def test_what_does_not_fit_waits_and_knows_why(queue):
    for name in (A, B, C, D):
        queue.put(name)
    queue.put("00000000ff", gpus=1)
    queue.step(2)
    assert queue.host.workers == [A, B]
    assert queue.row(C).why == "no slot is free: 2 in use"
    assert queue.row(D).why == "1 run before it"
    assert queue.row("00000000ff").why == "it needs a GPU, and this server has none"
    assert queue.feeder.decision.standings[D].ahead == 1
    queue.host.end(A)
    queue.step(2)
    assert queue.host.workers == [A, B, C]


def test_a_start_that_is_refused_ends_the_run_with_the_host_s_words(queue):
    place = Problem("the image a/b is not allowed", hint="use debian")
    queue.host.refusal = HostAnswer(Reason.NOT_ALLOWED, (place, Problem("and no GPU")))
    queue.put(A)
    queue.step(2)
    row = queue.row(A)
    assert (row.state, row.reason) == (ENDED, Reason.NOT_ALLOWED)
    assert row.why == "the image a/b is not allowed; use debian\nand no GPU"
    assert row.secrets == ""


def test_a_host_that_is_busy_gets_the_run_later(queue):
    queue.host.refusal = HostAnswer(Reason.BUSY, (Problem("no space left"),))
    queue.put(A)
    queue.step(2)
    assert queue.state(A) is WAITING
    queue.host.refusal = None
    queue.step(12)
    assert queue.host.workers == [A]
    assert queue.state(A) is RUNNING


def test_a_clock_that_is_set_back_holds_up_nothing(queue):
    queue.host.refusal = HostAnswer(Reason.BUSY, (Problem("no space left"),))
    queue.put(A)
    queue.step(2)
    assert queue.state(A) is WAITING
    queue.host.refusal = None
    queue.now -= 3600
    queue.step(2)
    assert queue.state(A) is RUNNING
    assert queue.host.workers == [A]


def test_without_runs_the_host_is_asked_now_and_then(queue, monkeypatch):
    asked = []
    usual = queue.host.facts
    monkeypatch.setattr(queue.host, "facts", lambda: asked.append(1) or usual())
    queue.step(100, after_s=0.5)
    assert len(asked) == 10
    queue.put(A)
    queue.step(2, after_s=0.5)
    assert len(asked) == 12


@pytest.mark.parametrize("begun", [True, False])
def test_a_lost_answer_is_settled_by_the_next_look(queue, begun):
    queue.host.answers_lost = 1
    queue.host.begins = begun
    queue.put(A)
    queue.step()
    queue.host.begins = True
    queue.step(15)
    assert queue.state(A) is RUNNING
    assert queue.host.workers == [A]
    assert len(queue.host.asked) == (1 if begun else 2)


def test_a_host_that_is_busy_where_an_answer_was_lost_does_not_free_the_run(queue):
    queue.host.begins = False
    queue.host.answers_lost = 1
    queue.put(A)
    queue.step()
    queue.host.refusal = HostAnswer(Reason.BUSY, (Problem("16 are being started"),))
    queue.step(15)
    assert len(queue.host.asked) == 2
    assert queue.state(A) is STARTING
    queue.host.begin(A)
    queue.step()
    assert queue.state(A) is RUNNING


def test_a_run_that_the_host_took_and_no_worker_waits_again_and_ends_at_last(queue):
    queue.host.begins = False
    queue.put(A)
    queue.step(60, after_s=10.0)
    row = queue.row(A)
    assert (row.state, row.reason) == (ENDED, Reason.INTERNAL)
    assert row.why == "no worker of the job host took it, 3 times"
    assert len(queue.host.asked) == 3
    assert queue.steps.count("run_waits_again") == 2


def test_a_run_whose_worker_died_is_lost(queue):
    queue.put(A)
    queue.step(2)
    queue.host.lose(A)
    queue.step()
    assert (queue.state(A), queue.row(A).reason) == (ENDED, Reason.RUNNER_LOST)


def test_a_run_whose_folder_is_gone_is_lost_after_a_while(queue):
    queue.put(A)
    queue.step(2)
    queue.host.known.clear()
    queue.step(5)
    assert queue.state(A) is RUNNING
    queue.step(15)
    assert (queue.state(A), queue.row(A).reason) == (ENDED, Reason.RUNNER_LOST)
    assert queue.row(A).why == "the job host knows nothing of it any more"


def test_while_the_host_is_away_nothing_is_lost_and_the_queue_says_since_when(queue):
    queue.put(A)
    queue.step(2)
    queue.host.unreachable = True
    queue.put(B)
    queue.step(100, after_s=60.0)
    since = datetime.fromtimestamp(NOW + 62).strftime("%H:%M")
    assert queue.row(B).why == f"the job host cannot be reached since {since}"
    assert queue.feeder.decision.note == queue.row(B).why
    assert queue.state(A) is RUNNING
    queue.host.unreachable = False
    queue.host.end(A)
    queue.step(2)
    assert (queue.state(A), queue.state(B)) == (ENDED, RUNNING)
    assert [s for s in queue.steps if "host" in s] == ["host_away", "host_back"]


def test_a_long_absence_is_told_with_its_date(queue):
    queue.host.unreachable = True
    queue.put(A)
    queue.step(2, after_s=90_000.0)
    day = datetime.fromtimestamp(NOW + 90_000).strftime("%Y-%m-%d %H:%M")
    assert queue.row(A).why.endswith(day)


def test_nothing_starts_on_a_drained_server_or_without_disk(queue):
    queue.put(A)
    queue.store.drain("a new driver")
    queue.step()
    assert queue.row(A).why == "the server is drained: a new driver"
    queue.store.drain("")
    queue.host.disk_free = 3 * GIB + 7
    queue.step()
    text = "the job host has only 3GiB of disk left, and needs 5GiB"
    assert queue.row(A).why == text
    queue.host.disk_free = 5 * GIB
    queue.host.problems = (Problem("no engine can serve"),)
    queue.step()
    assert queue.row(A).why == "the job host can run nothing: no engine can serve"
    queue.host.problems = (Problem("old", severity=Severity.WARNING),)
    queue.step(2)
    assert queue.state(A) is RUNNING


def test_a_gpu_that_is_out_gives_no_room(tmp_path):
    queue = Queue(tmp_path, gpus=2)
    queue.host.put_out("GPU-1", "it fell off the bus")
    queue.put(A, gpus=1)
    queue.put(B, gpus=1)
    queue.step(2)
    assert queue.host.workers == [A]
    broken = "GPU 1 is out of order: it fell off the bus"
    assert queue.row(B).why == f"no GPU is free: 1 in use; {broken}"
    queue.host.clear_gpu("GPU-1")
    queue.step()
    assert queue.host.workers == [A, B]
    queue.close()


def test_a_cancel_is_asked_for_until_the_run_has_ended(queue):
    queue.put(A)
    queue.step(2)
    queue.store.ask_cancel(A, queue.now, "by ada")
    queue.step(12)
    assert queue.host.cancels == [A, A, A]
    queue.host.end(A, Reason.CANCELLED)
    queue.step(10)
    assert queue.host.cancels == [A, A, A]
    assert queue.row(A).reason is Reason.CANCELLED


def test_a_run_that_is_cancelled_while_it_starts_is_not_started_again(queue):
    queue.host.answers_lost = 1
    queue.host.begins = False
    queue.put(A)
    queue.step()
    queue.host.forget(A)
    queue.store.ask_cancel(A, queue.now, "")
    queue.restart()
    queue.step(20)
    assert (queue.state(A), queue.row(A).reason) == (ENDED, Reason.CANCELLED)
    assert queue.host.workers == []
    assert len(queue.host.asked) == 1


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
    slow = Feeder(queue.store, queue.host, queue.rules, queue.folder)
    queue.host.gate.clear()
    queue.put(A)
    slow.step(NOW + 1)
    queue.put(B)
    slow.step(NOW + 2)
    assert (queue.state(A), queue.state(B)) == (STARTING, STARTING)
    for later in range(3, 30):
        slow.step(NOW + later)
    queue.host.gate.set()
    until = time.monotonic() + 30
    while {queue.state(A), queue.state(B)} != {RUNNING}:
        assert time.monotonic() < until
        slow.step(NOW + 40)
        time.sleep(0.01)
    assert sorted(queue.host.workers) == [A, B]
    assert len(queue.host.asked) == 2


def test_those_far_behind_are_not_written_at_each_start(queue):
    names = [f"{number:010x}" for number in range(60)]
    for name in names:
        queue.put(name)
    queue.step(2)
    assert queue.row(names[10]).why == "8 runs before it"
    assert queue.row(names[50]).why == "many runs before it"
    assert queue.feeder.decision.standings[names[50]].why == "48 runs before it"
    before = queue.row(names[50]).changed
    queue.host.end(names[0])
    queue.step(2)
    assert queue.row(names[10]).why == "7 runs before it"
    assert queue.row(names[50]).changed == before


def test_estimates_and_turns_are_remembered_over_a_restart(queue):
    queue.host.begins = False
    queue.put(A)
    queue.step()
    queue.host.begin(A, at=queue.now)
    queue.step()
    queue.host.end(A)
    ended = replace(queue.host.known[A], ended_at=queue.now + 40)
    queue.host.known[A] = ended
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


def test_a_team_waits_once_it_had_gpus_for_its_minutes_of_the_day(tmp_path):
    role = Role("student", gpu_a_day_s=60.0)
    queue = Queue(tmp_path, gpus=2, rules=ServerRules(roles={"student": role}))
    queue.put(A, gpus=1)
    queue.step()
    queue.store.started(A, queue.now)
    queue.step(after_s=60.0)
    queue.put(B, gpus=1)
    queue.put(C, team="blue", gpus=1)
    queue.step()
    assert (queue.state(B), queue.state(C)) == (WAITING, STARTING)
    assert "GPUs for the 1 min that it may in 24 hours" in queue.row(B).why
    queue.store.ended(A, queue.now, Reason.DONE)
    queue.step()
    assert queue.state(B) is WAITING
    queue.step(after_s=DAY_S)
    assert queue.state(B) is STARTING
    queue.close()
