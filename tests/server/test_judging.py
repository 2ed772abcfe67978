"""From a receipt to a verdict: the runs of a submission, by a server's own queue."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from runner.core import GIB, Reason
from runner.core.request import from_json as request_of
from runner.core.wire import QueueState
from runner.server.scheduling import QueueHistory, Role, ServerRules, by_age, in_turn
from tests.kit import judge_cases as made
from tests.kit import sample_submission as sample
from tests.kit.judge_cases import ACCEPTED
from tests.kit.queued import Queue
from tests.kit.submitted import (
    CUBINS,
    IS_WRONG,
    SPOILED,
    Submitting,
    built,
    measured,
    sealed,
    unpacked,
)
from tests.server.test_feeder_crashes import Killer

TIGHT = ServerRules(
    roles={"student": Role("student", ceilings={"time_s": 1.0}, at_once=1, a_day=1)},
    slots=2,
)
COMPILE, MEASURE = "compile", "measure"
GPU = made.measurement()["gpu"]["uuid"]


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    found = Queue(tmp_path, gpus=1, rules=TIGHT)
    yield found
    found.close()


@pytest.fixture
def site(queue: Queue, tmp_path: Path) -> Submitting:
    return Submitting(queue, tmp_path)


def test_an_accepted_submission_has_a_run_each_and_keeps_what_was_measured(
    queue: Queue, site: Submitting
):
    number = site.put()

    first = site.going(number)
    site.compiled(number)
    second = site.going(number)
    done = site.end(number, measured(ACCEPTED))

    assert done.reason is Reason.DONE and done.message.startswith("1.1")
    assert [(run.name, run.run) for run in done.runs] == [
        (COMPILE, first),
        (MEASURE, second),
    ]
    assert done.charged and done.may_count and done.measured
    assert done.measured.entries[0].ratio == ACCEPTED["ratio"]
    assert done.measured.gpu and done.measured.gpu.uuid == GPU
    assert done.measured.entries[0].layers and not done.measured.entries[0].samples
    known = done.measured.host
    assert known is not None and known.runs == {COMPILE: first, MEASURE: second}
    assert list(known.sources) == [sample.SOURCE] and known.commit == "c0ffee"
    assert not list((queue.folder / "judged").iterdir())


def test_its_runs_are_the_servers_own_with_the_milestones_limits(
    queue: Queue, site: Submitting, tmp_path: Path
):
    number = site.put()
    runs = [site.going(number)]
    site.compiled(number)
    runs.append(site.going(number))

    asked = dict(queue.runs.asked)
    rows = [queue.row(run) for run in runs]
    assert [row.gpus for row in rows] == [0, 1]
    assert {row.submission for row in rows} == {number}
    for run in runs:
        allowed = asked[run].terms.allowed
        assert allowed is not None and not allowed.ceilings and allowed.images is None
        assert not asked[run].secret.values
    parcel = request_of(queue.runs.paths(runs[0]).parcel.read_bytes())
    assert "time: 10m" in parcel.spec_text and parcel.inner
    assert parcel.title == "final: compile"
    given = unpacked(queue.runs.paths(runs[1]).source, tmp_path / "given")
    assert (given / "compiled/0.cubin").read_bytes() == CUBINS["0.cubin"]
    assert not (given / "team").exists() and not (given / "report.pdf").exists()
    assert json.loads((given / "job.json").read_text())["milestone"] == "final"


@pytest.mark.parametrize(
    ("build", "reason", "charged"),
    [(measured(IS_WRONG), Reason.WRONG_ANSWER, True), (b"", Reason.INTERNAL, False)],
)
def test_a_wrong_answer_uses_an_attempt_and_a_judge_that_fails_does_not(
    site: Submitting, build: bytes, reason: Reason, charged: bool
):
    number = site.put()
    site.compiled(number)

    done = site.end(number, build)

    assert (done.reason, done.charged, done.may_count) == (reason, charged, False)
    assert len(done.runs) == 2


def test_what_does_not_compile_ends_it_without_a_gpu(queue: Queue, site: Submitting):
    number = site.put()

    done = site.end(number, reason=Reason.COMMAND_FAILED)

    assert (done.reason, done.charged) == (Reason.COMMAND_FAILED, True)
    assert [run.name for run in done.runs] == [COMPILE]
    assert queue.store.unfinished() == []


def test_a_spoiled_measurement_is_repeated_twice_and_then_gives_the_attempt_back(
    queue: Queue, site: Submitting
):
    number = site.put()
    site.compiled(number)
    for _ in range(2):
        assert site.end(number, measured(SPOILED)).reason is None

    done = site.end(number, measured(SPOILED))

    assert (done.reason, done.charged) == (Reason.BUSY, False)
    assert [run.name for run in done.runs] == [COMPILE, MEASURE, MEASURE, MEASURE]
    assert {run.why for run in done.runs[1:]} == {"1 other program used the GPU"}
    assert queue.store.attempts_used("red", "final", "2026fa") == 0


def test_a_worker_that_is_lost_is_followed_by_another(queue: Queue, site: Submitting):
    number = site.put()
    queue.runs.lose(site.going(number))
    queue.step(3)
    site.compiled(number)
    done = site.end(number, measured(ACCEPTED))

    reasons = [run.reason for run in done.runs]
    assert reasons == [Reason.RUNNER_LOST, Reason.DONE, Reason.DONE]
    assert done.reason is Reason.DONE and done.charged


def test_a_rehearsal_is_judged_alike_and_never_counts(site: Submitting):
    number = site.put(rehearsal=True)
    site.compiled(number)
    done = site.end(number, measured(ACCEPTED))

    assert done.reason is Reason.DONE and done.measured and not done.may_count
    assert done.measured.host and done.measured.host.why_not_ranked == ("a rehearsal",)


def test_whoever_cancels_its_run_ends_it(queue: Queue, site: Submitting):
    number = site.put()
    run = site.going(number)
    queue.store.ask_cancel(run, queue.now, "cancelled by ada")
    queue.runs.end(run, Reason.CANCELLED)
    queue.step(3)

    done = site.one(number)
    assert (done.reason, done.message) == (Reason.CANCELLED, "cancelled by ada")


def test_what_another_client_sends_is_refused_as_its_own_would_have(
    site: Submitting, tmp_path: Path
):
    project = sample.write(tmp_path / "other")
    packed = sealed(project, tmp_path / "whole")
    (project / sample.SOURCE).write_text("// changed after the plan\n")
    stale = sealed(project, tmp_path / "stale")

    for data, said in (
        (stale, "plan.json is older than project/cuda/naive.cu"),
        (packed[:-20], "cannot be read"),
        (b"no archive", "cannot be read"),
        (built({"../../plan.json": b"{}"}), "leads out"),
        (built({"plan.json": b"{}"}), "is no submission to final"),
    ):
        number = site.put(data=data)
        site.queue.step(3)
        done = site.one(number)
        assert done.reason is not None and done.reason is not Reason.DONE
        assert said in done.message and done.runs == ()


@pytest.mark.parametrize(
    "left", [{}, {"0.cubin": b"no code"}, {"../0.cubin": CUBINS["0.cubin"]}]
)
def test_what_the_compiler_should_not_have_left_ends_it(site: Submitting, left):
    number = site.put()

    done = site.end(number, built(left))

    assert done.reason in (Reason.NOT_ALLOWED, Reason.INTERNAL)
    assert [run.reason for run in done.runs] == [Reason.DONE]


def test_submissions_start_first_then_rehearsals_then_runs_and_teams_take_turns(
    queue: Queue, site: Submitting
):
    for number, team in enumerate(("red", "blue")):
        queue.put(f"{number:010x}", team, priority=1_000_000)
    kinds = [("red", True), ("red", False), ("red", False), ("blue", False)]
    numbers = []
    for team, rehearsal in kinds:
        queue.now += 1
        numbers.append(site.put(team, rehearsal=rehearsal))
    queue.store.drain("all wait")
    queue.step(2)

    order = in_turn(by_age(queue.store.unfinished()), QueueHistory())

    first, *rest = (row.submission for row in order)
    assert [first, *rest][:2] == [numbers[1], numbers[3]]
    assert rest[1:] == [numbers[2], numbers[0], None, None]


def test_no_bound_of_a_role_holds_a_submission(queue: Queue, site: Submitting):
    queue.put("0123456789", "red")
    queue.put("9876543210", "red")
    queue.step()

    number = site.put("red")

    assert site.going(number)
    assert queue.state("9876543210") is QueueState.WAITING
    site.compiled(number)
    assert queue.store.use("red", 0).queued_since == 2
    rehearsal = site.put("red", rehearsal=True)
    queue.step(3)
    run = site.one(rehearsal).going
    assert run and queue.state(run.run) is QueueState.WAITING


def test_where_the_disk_is_low_submissions_start_and_runs_wait(
    queue: Queue, site: Submitting
):
    queue.runs.disk_free = 3 * GIB
    queue.put("0123456789", "blue")
    number = site.put()

    assert site.going(number)
    assert queue.state("0123456789") is QueueState.WAITING
    assert "of disk are left for runs" in queue.row("0123456789").why


def test_where_gpus_differ_one_of_the_first_ones_model_measures(
    queue: Queue, site: Submitting
):
    (first,) = queue.runs.gpus
    others = replace(first, uuid="GPU-2"), replace(first, uuid="GPU-3", name="other")
    queue.runs.gpus = (replace(first, out="odd times"), *others)
    number = site.put()
    site.compiled(number)

    run = site.going(number)

    assert dict(queue.runs.asked)[run].gpus == "GPU-2"


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 17])
def test_a_server_that_is_killed_anywhere_gives_one_verdict(
    queue: Queue, site: Submitting, monkeypatch: pytest.MonkeyPatch, every: int
):
    judged = ("judge", "unjudged", "add_upload", "submission")
    killer = Killer(queue, monkeypatch, *judged)

    def life() -> list[str]:
        """Let a submission go to its end, however often the server is killed."""
        number, ends = site.put(), {COMPILE: built(CUBINS), MEASURE: measured(ACCEPTED)}
        killer.calls = 0
        for _ in range(60):
            killer.step()
            found = [one for one in queue.store.submissions() if one.number == number]
            one = found[0]
            if one.ended_at is not None:
                assert one.reason is Reason.DONE, one
                return [run.name for run in one.runs]
            run = one.going
            known = queue.runs.known.get(run.run) if run else None
            if run and known and known.claimed and not known.ended:
                queue.runs.write(run.run, "build.tar.zst", ends[run.name])
                queue.runs.end(run.run)
        raise AssertionError("no verdict")

    assert life() == [COMPILE, MEASURE]
    most = killer.calls
    assert most > 30
    for number in range(1, most, every):
        killer.at, killer.before = number, not killer.before
        assert life() == [COMPILE, MEASURE]
    assert max(map(queue.runs.workers.count, queue.runs.workers)) == 1
