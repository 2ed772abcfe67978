"""The queue is asked once an interval, however many processes and runs want to know."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from runner.core import Reason
from runner.core.errors import EngineError
from runner.core.wire import QueueState
from runner.execution import slurm as place
from runner.execution import slurm_jobs, slurm_programs
from runner.execution.slurm import SlurmWatch, queued_run
from runner.execution.slurm_jobs import SlurmJob
from runner.execution.slurm_programs import NoAnswerError, QueueLook
from runner.store.paths import Home
from runner.store.removal import alone
from runner.system import files
from tests.kit.waiting import until

WAITS = SlurmJob("7", "rai-0123456789", "PENDING", "Resources")


class FakeSlurm:
    """Answers in place of squeue, and counts."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.jobs: tuple[SlurmJob, ...] = (WAITS,)
        self.away = False

    def answer(self, argv: list[str]) -> bytes:
        self.calls.append(tuple(argv))
        if self.away:
            raise NoAnswerError("Slurm does not answer: nobody there")
        return b""

    @property
    def queries(self) -> int:
        return len(self.calls)


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSlurm]:
    fake = FakeSlurm()
    monkeypatch.setattr(slurm_programs, "answer", fake.answer)
    monkeypatch.setattr(slurm_jobs, "parse", lambda _: fake.jobs)
    yield fake


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_many_looks_within_an_interval_are_one_query(slurm, home):
    for _ in range(100):
        assert slurm_programs.look(home).jobs == {WAITS.name: (WAITS,)}
    assert slurm.queries == 1


def test_another_process_reads_the_answer_of_the_first(slurm, home, monkeypatch):
    slurm_programs.look(home)
    monkeypatch.setattr(slurm_programs, "_memory", {})
    assert slurm_programs.look(home).jobs == {WAITS.name: (WAITS,)}
    assert slurm.queries == 1


def test_processes_that_look_at_once_ask_once(slurm, home, monkeypatch):
    class Forgetful(dict):  # type: ignore[type-arg]
        def __setitem__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(slurm_programs, "_memory", Forgetful())
    threads = [
        threading.Thread(target=slurm_programs.look, args=[home]) for _ in range(20)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert slurm.queries == 1


def test_a_queue_that_another_process_asks_for_is_not_taken_for_empty(
    slurm, home, monkeypatch
):
    found: list[QueueLook] = []
    with alone(home.slurm.with_name("slurm.json.lock")):
        one = threading.Thread(target=lambda: found.append(slurm_programs.look(home)))
        one.start()
        until(lambda: home.slurm.with_name("slurm.json.lock").exists())
        one.join(0.2)
        assert not found
        slurm_programs._asked(home, time.time())
    one.join()
    assert [look.jobs for look in found] == [{WAITS.name: (WAITS,)}]
    slurm_programs.forget(home)
    monkeypatch.setattr(slurm_programs, "ANSWERS_WITHIN_S", 0)
    with alone(home.slurm.with_name("slurm.json.lock")):
        assert slurm_programs.look(home).trouble


def test_a_home_that_cannot_be_written_is_no_empty_queue(slurm, home, monkeypatch):
    def refuse(folder: Path) -> float:
        raise OSError(errno.EROFS, "Read-only file system", f"{folder}/.time")

    monkeypatch.setattr(files, "time_there", refuse)
    assert "Read-only file system" in slurm_programs.look(home).trouble
    assert slurm_programs.ask(home).jobs


def test_an_answer_that_is_asked_for_is_not_one_of_before(slurm, home):
    slurm_programs.look(home)
    slurm.jobs = ()
    with alone(home.slurm.with_name("slurm.json.lock")):
        assert slurm_programs.ask(home).jobs == {}
    assert slurm_programs.look(home).jobs == {}


def test_many_runs_in_turn_are_looked_at_without_a_pause(slurm, home, monkeypatch):
    monkeypatch.setattr(place, "LOOK_S", 3600.0)
    for number in range(20):
        one = SlurmWatch(home.run(f"{number:010}"))
        one.start()
        until(lambda one=one: one.settled)
        one.stop()


def test_a_machine_without_slurms_programs_has_no_engine_for_a_run(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="sbatch, squeue, scancel, sinfo") as caught:
        slurm_programs.check()
    assert caught.value.reason is Reason.NO_ENGINE


def test_a_change_is_asked_for_at_once(slurm, home):
    slurm_programs.look(home)
    slurm.jobs = ()
    slurm_programs.forget(home)
    assert slurm_programs.look(home).jobs == {}
    assert slurm.queries == 2


def test_a_controller_that_is_away_is_asked_seldom_and_its_last_answer_stands(
    slurm, home
):
    first = slurm_programs.look(home)
    assert not first.fresh(first.at + 5)
    slurm.away = True
    home.slurm.touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slurm_programs, "INTERVAL_S", 0.0)
        patch.setattr(slurm_programs, "SHARE", 0)
        patch.setattr(slurm_programs, "_memory", {})
        found = slurm_programs.look(home)
    assert found.trouble == "Slurm does not answer: nobody there"
    assert found.jobs == first.jobs
    assert found.fresh(found.at + 5)


def test_an_answer_from_the_future_is_asked_for_again():
    assert not QueueLook(at=1000.0).fresh(500.0)


@pytest.mark.parametrize("data", [b"", b"{", b'{"jobs": 3}', b"[]"])
def test_a_damaged_file_is_asked_for_again(slurm, home, data):
    home.slurm.write_bytes(data)
    assert slurm_programs.look(home).jobs == {WAITS.name: (WAITS,)}


def standing(*some: SlurmJob, claimed: bool = False) -> tuple[QueueState, str]:
    found = queued_run("0123456789", some, 1000.0, 1060.0, claimed=claimed)
    return found.state, found.why


def test_how_a_run_stands_follows_its_job():
    state, why = standing(WAITS)
    assert state is QueueState.WAITING
    assert why == "Slurm says Resources"
    going = replace(WAITS, state="RUNNING", node="n1")
    assert standing(going) == (QueueState.STARTING, "Slurm has given it n1")
    assert standing(going, claimed=True) == (QueueState.RUNNING, "")
    assert standing()[0] is QueueState.STARTING


def test_a_start_that_slurm_expects_is_told():
    waits = replace(WAITS, start_at=1360.0)
    found = queued_run("0123456789", (waits,), 1000.0, 1060.0, claimed=False)
    assert found.estimate_s == 300.0
