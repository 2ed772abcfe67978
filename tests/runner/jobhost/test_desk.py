"""What a job host answers, with GPUs and engines that the test decides."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace

from runner import places
from runner.core import (
    Gpu,
    GpuUse,
    GpuWay,
    Machine,
    Problem,
    Reason,
    State,
    Stream,
    Verdict,
)
from runner.core import events as ev
from runner.jobhost import gpus_out, starting
from runner.jobhost.desk import JobDesk
from runner.jobhost.survey import MachineSurvey, SurveyedGpu
from runner.store import runs
from runner.store.claim import Claim
from runner.store.home import make
from runner.wire.host import (
    AskFacts,
    CancelRun,
    ClearGpu,
    HostFacts,
    HostRun,
    LookAt,
    RemoveRuns,
    StartRun,
)
from tests.runner.jobhost.hosting import new_id
from tests.waiting import until

A, B = SurveyedGpu("GPU-a", "A"), SurveyedGpu("GPU-b", "B")
MACHINE = Machine("m", "Linux", "a CPU", 4, 8 << 30, "3.11", "0")


@pytest.fixture
def home(tmp_path):
    return make(tmp_path / "rai")


class Surveys:
    """What each look at the machine finds."""

    def __init__(self, *gpus: SurveyedGpu) -> None:
        self.found = MachineSurvey(("local",), gpus=gpus)
        self.made = 0

    def __call__(self) -> MachineSurvey:
        self.made += 1
        return self.found


def facts(desk: JobDesk) -> HostFacts:
    found = desk.reply(AskFacts()).answer.facts
    assert found is not None
    return found


def out(desk: JobDesk) -> dict[str, str]:
    return {gpu.uuid: gpu.out for gpu in facts(desk).gpus if gpu.out}


def look(desk: JobDesk, run_id: str) -> HostRun:
    (found,) = desk.reply(LookAt((run_id,))).answer.runs
    return found


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
    desk = JobDesk(home, Surveys(A, B))
    assert out(desk) == {}

    run = look(desk, ended(home, Reason.GPU_ERROR, A.uuid))

    assert run.reason is Reason.GPU_ERROR and run.gpus == (A.uuid,)
    assert list(out(desk)) == [A.uuid]
    assert f"run {run.id} ended with an error of this GPU" in out(desk)[A.uuid]


def test_a_fault_of_the_program_leaves_its_gpu_in(home):
    desk = JobDesk(home, Surveys(A))
    look(desk, ended(home, Reason.GPU_FAULT, A.uuid))
    assert out(desk) == {}


def test_a_gpu_stays_out_after_a_restart_and_comes_back_by_hand(home):
    run_id = ended(home, Reason.GPU_ERROR, A.uuid)
    look(JobDesk(home, Surveys(A)), run_id)

    again = JobDesk(home, Surveys(A))
    before = out(again)
    again.reply(ClearGpu(A.uuid))
    look(again, run_id)

    assert list(before) == [A.uuid]
    assert out(again) == {} == out(JobDesk(home, Surveys(A)))


def test_an_error_while_there_was_no_host_puts_the_gpu_out(home):
    ended(home, Reason.GPU_ERROR, A.uuid)
    assert list(out(JobDesk(home, Surveys(A, B)))) == [A.uuid]


def test_a_gpu_comes_back_by_itself_once_it_is_well(home, monkeypatch):
    desk = JobDesk(home, surveys := Surveys(A))
    assert out(desk) == {}
    surveys.found = MachineSurvey(("local",), gpus=(replace(A, problem="it is lost"),))
    look(desk, ended(home, Reason.GPU_ERROR, A.uuid))
    monkeypatch.setattr(gpus_out, "LEAST_S", 0.0)

    until(lambda: "it is lost" in out(desk).get(A.uuid, ""))
    surveys.found = MachineSurvey(("local",), gpus=(A,))
    monkeypatch.setattr("runner.jobhost.facts.FRESH_S", 0.0)
    until(lambda: not out(desk))

    assert surveys.made >= 3


def test_a_gpu_that_does_not_answer_is_out_though_no_run_failed(home):
    desk = JobDesk(home, Surveys(replace(A, problem="it does not answer"), B))
    assert out(desk) == {A.uuid: "it does not answer"}


def test_the_machine_is_not_looked_at_for_each_question(home):
    desk = JobDesk(home, surveys := Surveys(A))
    for _ in range(100):
        facts(desk)
    assert surveys.made == 1


def test_without_an_engine_it_is_said_why_and_looked_at_again_soon(home, monkeypatch):
    desk = JobDesk(home, surveys := Surveys())
    surveys.found = MachineSurvey(problems=(Problem("docker: no answer"),))
    assert facts(desk).problems == (Problem("docker: no answer"),)

    monkeypatch.setattr("runner.jobhost.facts.FRESH_IN_TROUBLE_S", 0.0)
    surveys.found = MachineSurvey(("local",), (Problem("docker: no answer"),))

    until(lambda: facts(desk).engines == ("local",))
    assert facts(desk).problems == ()


def sent(desk: JobDesk, home, monkeypatch, request: StartRun) -> list[object]:
    """Start a run whose order is kept, and return it."""
    orders: list[object] = []

    def start(order):
        orders.append(order)
        raise starting.BusyError("no worker in this test")

    monkeypatch.setattr(places, "LocalWorker", start)
    file = home.root / "file"
    file.write_text("{}")
    with file.open("rb") as opened, pytest.raises(starting.BusyError):
        desk.reply(request, [opened.fileno()] * 2)
    return orders


def test_a_run_is_told_which_gpus_are_out_even_by_a_run_nobody_looked_at(
    home, monkeypatch
):
    desk, paths = JobDesk(home, Surveys(A, B)), home.run(new_id())
    paths.root.mkdir(parents=True)
    given = GpuUse(GpuWay.NODES, (Gpu(A.uuid, "a GPU", 0),))
    with Claim(paths), runs.Recorder(paths) as recorder:
        recorder.keep(ev.Created(paths.id, "/project", "rai_build.yml", None, MACHINE))
        recorder.keep(ev.GpuGiven(given))
        assert look(desk, paths.id).gpus == (A.uuid,)
        verdict = Verdict(False, False, None, Reason.GPU_ERROR)
        recorder.keep(ev.Finished(verdict))

    (order,) = sent(desk, home, monkeypatch, StartRun(new_id()))

    assert list(order.gpus_out) == [A.uuid]  # type: ignore[attr-defined]


def test_an_order_is_strict_and_its_home_is_the_hosts(home, monkeypatch):
    desk, run_id = JobDesk(home, Surveys()), new_id()
    request = StartRun(run_id, {"RAI_ENGINE": "docker"}, "text", {"A": "b"})

    (order,) = sent(desk, home, monkeypatch, request)

    assert order == starting.Order(
        str(home.run(run_id).root),
        {"RAI_ENGINE": "docker", "RAI_HOME": str(home.root)},
        "text",
        {"A": "b"},
        sealed=True,
        allowed=starting.THIS_SERVER,
    )
    assert not home.run(run_id).root.exists()


def test_a_run_that_goes_on_is_told_by_its_events(home):
    desk, paths = JobDesk(home, Surveys()), home.run(new_id())
    paths.root.mkdir(parents=True)
    assert look(desk, paths.id) == HostRun(paths.id, claimed=False, ended=False)
    with Claim(paths), runs.Recorder(paths) as recorder:
        assert look(desk, paths.id).state is State.NEW
        recorder.keep(ev.Created(paths.id, "/project", "rai_build.yml", None, MACHINE))
        for state in (State.PACKED, State.PREPARING, State.RUNNING):
            recorder.keep(ev.StateChanged(state))
            assert look(desk, paths.id).state is state
        for _ in range(20_000):
            recorder.keep(ev.Output(0, Stream.STDOUT, b"x"))
        recorder.keep(ev.StateChanged(State.COLLECTING))
        seen = until(
            lambda: (r := look(desk, paths.id)).state is State.COLLECTING and r
        )
        assert seen.started_at is not None and seen.started_at <= time.time()
        recorder.keep(ev.Finished(Verdict(True, True, None, Reason.DONE)))
    assert look(desk, paths.id).ended


def test_a_run_that_is_being_started_is_not_lost_and_can_be_cancelled(
    home, monkeypatch
):
    desk, run_id = JobDesk(home, Surveys()), new_id()
    paths, seen = home.run(run_id), []
    copy = starting._copy

    def slow(given, path, most_bytes):
        desk.reply(CancelRun(run_id))
        copy(given, path, most_bytes)

    def start(order):
        Claim(paths).close()
        seen.append(look(desk, run_id))
        seen.append(paths.cancel.exists())
        raise starting.BusyError("no worker in this test")

    monkeypatch.setattr(starting, "_copy", slow)
    monkeypatch.setattr(places, "LocalWorker", start)
    with (home.root / "file").open("w+b") as file:
        desk.reply(StartRun(run_id), [file.fileno()] * 2)

    assert seen == [HostRun(run_id, claimed=False, ended=False), True]


def test_what_a_killed_host_left_is_removed_and_nobody_takes_it_any_more(home):
    half, whole = home.runs / ".new.0123456789.abcd", home.run(new_id())
    for folder in (half, whole.root):
        folder.mkdir(parents=True)
        (folder / "parcel.json").write_text("{}")
    kept = ended(home, Reason.DONE)

    desk = JobDesk(home, Surveys())

    assert not half.exists() and not whole.root.exists()
    assert look(desk, kept).ended
    with pytest.raises(FileNotFoundError):
        Claim(whole)


def test_a_run_of_which_nothing_is_known_has_ended_and_can_be_removed(home):
    desk, paths = JobDesk(home, Surveys()), home.run(new_id())
    paths.root.mkdir(parents=True)
    paths.parcel.write_text("no parcel")
    Claim(paths).close()

    seen = look(desk, paths.id)
    desk.reply(RemoveRuns((paths.id,)))

    assert (seen.ended, seen.state) == (True, State.LOST)
    assert (seen.reason, seen.exit_code) == (Reason.RUNNER_LOST, 10)
    assert not paths.root.exists()
