"""What a server knows of its runs, with GPUs and engines that the test decides."""

from __future__ import annotations

import errno
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from runner.core import (
    Gpu,
    GpuUse,
    GpuWay,
    Machine,
    Problem,
    Reason,
    RunRequest,
    State,
    Stream,
    Verdict,
)
from runner.core import events as ev
from runner.core.errors import BusyError
from runner.core.request import Answer, from_json
from runner.core.wire import Capacity, ServerGpu
from runner.core.work import Secrets
from runner.server import folders, workers
from runner.server.decision import RunStatus
from runner.server.folders import ServerRuns
from runner.server.workers import ThisMachine
from runner.store import runs
from runner.store.claim import Claim
from runner.store.home import make
from tests.kit.begun import new_id
from tests.kit.waiting import until

A, B = ServerGpu("GPU-a", "A"), ServerGpu("GPU-b", "B")
MACHINE = Machine("m", "Linux", "a CPU", 4, 8 << 30, "3.11", "0")


@pytest.fixture
def home(tmp_path):
    return make(tmp_path / "rai")


class LookedAt(ThisMachine):
    """A machine, of which the test decides what each look finds."""

    def __init__(self, home, *gpus: ServerGpu) -> None:
        super().__init__(home, None)
        self.seen = Capacity("0", ("local",), gpus)
        self.made = 0

    def _survey(self) -> Capacity:
        self.made += 1
        return self.seen


def seeing(home, *gpus: ServerGpu) -> ServerRuns:
    return ServerRuns(home, LookedAt(home, *gpus))


def facts(runs: ServerRuns) -> Capacity:
    return until(runs.capacity)


def out(runs: ServerRuns) -> dict[str, str]:
    return {gpu.uuid: gpu.out for gpu in facts(runs).gpus if gpu.out}


def look(runs: ServerRuns, run_id: str) -> RunStatus:
    return runs.look([run_id])[run_id]


def ended(home, reason: Reason, *gpus: str) -> str:
    """Write the folder of a run that ended so, with these GPUs; return its id."""
    paths = home.run(new_id())
    paths.root.mkdir(parents=True)
    with runs.Recorder(paths) as recorder:
        recorder.keep(ev.Created(paths.id, "/project", "rai_build.yml", None, MACHINE))
        given = tuple(Gpu(uuid, "a GPU", 0) for uuid in gpus)
        recorder.keep(ev.GpuGiven(GpuUse(GpuWay.NODES, given)))
        verdict = Verdict(reason is not Reason.GPU_ERROR, False, None, reason)
        recorder.keep(ev.Finished(verdict))
    return str(paths.id)


def test_a_gpu_is_out_after_a_runs_error_of_it_and_no_other_is(home):
    runs_ = seeing(home, A, B)
    assert out(runs_) == {}

    look(runs_, ended(home, Reason.GPU_FAULT, B.uuid))  # of its program
    run = look(runs_, ended(home, Reason.GPU_ERROR, A.uuid))

    assert run.reason is Reason.GPU_ERROR and run.gpus == (A.uuid,)
    assert list(out(runs_)) == [A.uuid]
    assert f"run {run.id} ended with an error of this GPU" in out(runs_)[A.uuid]


def test_a_gpu_stays_out_after_a_restart_and_comes_back_by_hand(home):
    run_id = ended(home, Reason.GPU_ERROR, A.uuid)
    look(seeing(home, A), run_id)

    again = seeing(home, A)
    before = out(again)
    workers.GpusOut(home.root).clear(A.uuid)
    look(again, run_id)

    assert list(before) == [A.uuid]
    assert out(again) == {} == out(seeing(home, A))


def test_a_gpu_comes_back_by_itself_once_it_is_well(home, monkeypatch):
    runs_ = ServerRuns(home, surveys := LookedAt(home, A))
    assert out(runs_) == {}
    surveys.seen = Capacity("0", ("local",), gpus=(replace(A, out="it is lost"),))
    look(runs_, ended(home, Reason.GPU_ERROR, A.uuid))
    monkeypatch.setattr(workers, "LEAST_OUT_S", 0.0)

    until(lambda: "it is lost" in out(runs_).get(A.uuid, ""))
    surveys.seen = Capacity("0", ("local",), gpus=(A,))
    monkeypatch.setattr("runner.server.workers.FRESH_S", 0.0)
    until(lambda: not out(runs_))

    assert surveys.made >= 3


def test_a_gpu_that_does_not_answer_is_out_though_no_run_failed(home):
    runs_ = seeing(home, replace(A, out="it does not answer"), B)
    assert out(runs_) == {A.uuid: "it does not answer"}


def test_the_machine_is_not_looked_at_for_each_question(home):
    runs_ = ServerRuns(home, surveys := LookedAt(home, A))
    for _ in range(100):
        facts(runs_)
    assert surveys.made == 1


def test_without_an_engine_it_is_said_why_and_looked_at_again_soon(home, monkeypatch):
    runs_ = ServerRuns(home, surveys := LookedAt(home))
    surveys.seen = Capacity("0", (), problems=(Problem("docker: no answer"),))
    assert facts(runs_).problems == (Problem("docker: no answer"),)

    monkeypatch.setattr("runner.server.workers.FRESH_IN_TROUBLE_S", 0.0)
    surveys.seen = Capacity("0", ("local",))

    until(lambda: facts(runs_).engines == ("local",))
    assert facts(runs_).problems == ()


class Worker:
    """A worker that the test plays; ``began`` is called with the run's id."""

    def __init__(self, began) -> None:
        self.began = began

    def write(self, data: bytes) -> None:
        self.began(data.decode().strip())

    def read_line(self, timeout_s: float, most_bytes: int) -> bytes:
        return b""

    def leave(self) -> None:
        pass


ASKED = RunRequest("/project", "rai_build.yml", "")


def begin(runs: ServerRuns, home, run_id: str, asked: RunRequest, began) -> Answer:
    """Start a run whose worker the test plays."""
    runs._executor._summon = lambda: Worker(began)
    return runs.start(run_id, asked, Path(__file__))


def test_a_run_is_told_which_gpus_are_out_even_by_a_run_nobody_looked_at(home):
    runs_, paths = seeing(home, A, B), home.run(new_id())
    paths.root.mkdir(parents=True)
    given = GpuUse(GpuWay.NODES, (Gpu(A.uuid, "a GPU", 0),))
    with Claim(paths), runs.Recorder(paths) as recorder:
        recorder.keep(ev.Created(paths.id, "/project", "rai_build.yml", None, MACHINE))
        recorder.keep(ev.GpuGiven(given))
        assert look(runs_, paths.id).gpus == (A.uuid,)
        verdict = Verdict(False, False, None, Reason.GPU_ERROR)
        recorder.keep(ev.Finished(verdict))
    orders = []

    def began(run_id: str) -> None:
        orders.append(from_json(home.run(run_id).order.read_bytes()))
        Claim(home.run(run_id)).close()

    begin(runs_, home, new_id(), replace(ASKED, secret=Secrets({"A": "b"})), began)

    (order,) = orders
    assert list(order.terms.gpus_out) == [A.uuid]
    assert order.secret.values == {"A": "b"}


def test_a_run_that_goes_on_is_told_by_its_events(home):
    runs_, paths = seeing(home), home.run(new_id())
    paths.root.mkdir(parents=True)
    assert look(runs_, paths.id) == RunStatus(paths.id, claimed=False, ended=False)
    with Claim(paths), runs.Recorder(paths) as recorder:
        assert look(runs_, paths.id).state is State.NEW
        recorder.keep(ev.Created(paths.id, "/project", "rai_build.yml", None, MACHINE))
        for state in (State.PACKED, State.PREPARING, State.RUNNING):
            recorder.keep(ev.StateChanged(state))
            assert look(runs_, paths.id).state is state
        for _ in range(20_000):
            recorder.keep(ev.Output(0, Stream.STDOUT, b"x"))
        recorder.keep(ev.StateChanged(State.COLLECTING))
        seen = until(
            lambda: (r := look(runs_, paths.id)).state is State.COLLECTING and r
        )
        assert seen.started_at is not None and seen.started_at <= time.time()
        recorder.keep(ev.Finished(Verdict(True, True, None, Reason.DONE)))
    assert look(runs_, paths.id).ended


def test_a_run_that_is_being_started_is_not_lost_and_can_be_cancelled(
    home, monkeypatch
):
    runs_, run_id = seeing(home), new_id()
    paths, seen = home.run(run_id), []
    copy = folders.shutil.copyfile

    def slow(*given):
        runs_.cancel(run_id)
        copy(*given)

    def began(_: str) -> None:
        Claim(paths).close()
        seen.append(look(runs_, run_id))
        seen.append(paths.cancel.exists())

    monkeypatch.setattr(folders.shutil, "copyfile", slow)
    begin(runs_, home, run_id, ASKED, began)

    assert seen == [RunStatus(run_id, claimed=False, ended=False), True]


def test_a_full_disk_is_for_later_and_leaves_nothing(home, monkeypatch):
    def full(source, path):
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(folders.shutil, "copyfile", full)
    with pytest.raises(BusyError, match="No space left"):
        begin(seeing(home), home, new_id(), ASKED, lambda _: None)
    assert list(home.runs.glob("[.0-9]*")) == []


def test_what_a_killed_server_left_is_removed_and_nobody_takes_it_any_more(home):
    half, whole = home.runs / ".new.0123456789.abcd", home.run(new_id())
    for folder in (half, whole.root):
        folder.mkdir(parents=True)
        (folder / "parcel.json").write_text("{}")
    kept = ended(home, Reason.DONE)

    runs_ = seeing(home)

    assert not half.exists() and not whole.root.exists()
    assert look(runs_, kept).ended
    with pytest.raises(FileNotFoundError):
        Claim(whole)


def test_a_run_of_which_nothing_is_known_has_ended_and_can_be_removed(home):
    runs_, paths = seeing(home), home.run(new_id())
    paths.root.mkdir(parents=True)
    paths.parcel.write_text("no parcel")
    Claim(paths).close()

    seen = look(runs_, paths.id)
    runs_.remove([paths.id])

    assert (seen.ended, seen.state) == (True, State.LOST)
    assert seen.reason is Reason.RUNNER_LOST
    assert not paths.root.exists()
