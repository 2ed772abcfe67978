"""Two runs in turn: what runs when, and how both end."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from runner.core import Gpu, GpuSituation, GpuWay, Reason, RunRecord, State, WayTried
from runner.core import events as ev
from runner.core.errors import Cancel
from runner.engines import Choice
from runner.execution import bench, prepare
from runner.execution.bench import BenchOutcome, BenchPlan, PairEnded
from runner.execution.bench_sides import BenchSides, shared, source
from runner.execution.places import open_home
from runner.figures.comparison import Change
from runner.store import runs
from runner.store.paths import RunPaths
from tests.kit.fake_engine import FakeEngine, FakeResult

SPEC = """\
rai: {version: 0.2}
resources: {gpu: {count: 1, optional: true}}
commands:
  build:
    - make
    - {name: final, run: ./final}
"""
FIRST = Gpu("GPU-a", "Model", 0, ("/dev/nvidia0",), 1 << 30, "8.0")
SECOND = replace(FIRST, index=1, uuid="GPU-b")


class Times(dict[str, FakeResult]):
    """Results of ``./final`` with an op time that differs from call to call.

    ``at`` has those of calls that end otherwise.
    """

    def __init__(self, seconds: Callable[[int], float], closing: str = "") -> None:
        super().__init__()
        self.closing = closing
        self.calls, self.seconds = itertools.count(), seconds
        self.at: dict[int, FakeResult] = {}

    def get(self, text: str, default: FakeResult) -> FakeResult:  # type: ignore[override]
        if text != "./final":
            return default
        call = next(self.calls)
        told = f"New Inference\nOp Time: {self.seconds(call)}\n{self.closing}"
        return self.at.get(call, FakeResult(told.encode()))


def noisy(factor: float) -> Times:
    return Times(lambda call: factor * (1 + (call * 7 % 11) / 1000))


PROJECT = {"rai_build.yml": SPEC}


def sides(project: Path, one: FakeEngine, other: FakeEngine) -> BenchSides:
    prepared = prepare.prepare(project)
    engines = shared([(one,), (other,)], same=True)
    return BenchSides(
        (source(str(project), project), source(None, project)),
        (prepared, prepared),
        (Choice(engines[0]), Choice(engines[1])),
    )


def measured(
    project: Path, before: Times, after: Times, pairs: int = 30
) -> tuple[BenchOutcome, list[bench.BenchEvent]]:
    engines = (FakeEngine(before), FakeEngine(after))
    found = sides(project, *engines)
    asked = BenchPlan(pairs, 1e9)
    told = list(bench.take_turns(found, asked, Cancel()))
    return ended(told), told


def ended(told: list[bench.BenchEvent]) -> BenchOutcome:
    return told[-1]


def started(told: list[bench.BenchEvent]) -> list[tuple[str, int]]:
    """Return which side had which round of the measured command, in time's order."""
    return [
        (event.label, event.event.round)
        for event in told
        if isinstance(event, bench.SideEvent)
        and isinstance(event.event, ev.CommandStarted)
        and event.event.text == "./final"
    ]


def test_what_is_not_comparable_ends_both_after_the_first_pair(project):
    one, other = (
        Times(lambda _: 1.0, f"Correctness: 0.9 Model: {model}\n")
        for model in ("low", "high")
    )
    outcome, _ = measured(project, one, other)

    assert outcome.pairs == 1
    assert outcome.why.startswith("the figures are not comparable, as ")
    assert "model" in outcome.why
    assert (outcome.failed, outcome.reason) == ("", Reason.DONE)


def test_both_run_all_their_commands_and_then_take_turns(project):
    outcome, told = measured(project, noisy(1.0), noisy(1.0), pairs=3)

    rounds = [number for _, number in started(told)]
    assert rounds == [0, 0, 1, 1, 2, 2, 3, 3]
    labels = [label for label, _ in started(told)]
    assert all({*labels[n : n + 2]} == {"A", "B"} for n in range(0, 8, 2))
    assert [e.number for e in told if isinstance(e, PairEnded)] == [1, 2, 3]
    assert outcome.pairs == 3
    assert not outcome.failed
    _, told = measured(project, noisy(1.0), noisy(1.0), pairs=30)
    assert {label for label, _ in started(told)[::2]} == {"A", "B"}  # in random order


def test_neither_begins_its_commands_before_both_can(project):
    _, told = measured(project, noisy(1.0), noisy(1.0), pairs=1)

    states = [
        (event.label, event.event)
        for event in told
        if isinstance(event, bench.SideEvent)
    ]
    running = [
        n
        for n, (_, event) in enumerate(states)
        if isinstance(event, ev.StateChanged) and event.state is State.RUNNING
    ]
    first = next(n for n, (_, e) in enumerate(states) if isinstance(e, ev.Starting))
    assert len(running) == 2
    assert max(running) < first


def test_it_ends_at_a_look_where_the_verdict_stands(project):
    outcome, _ = measured(project, noisy(1.0), noisy(1.1), pairs=30)

    verdicts = {m.metric: m.verdict for m in outcome.comparisons[0].metrics}
    assert verdicts["op_time[final]"] is Change.SLOWER
    assert outcome.pairs == 12
    assert outcome.why == "the main verdicts stand"


def test_it_ends_when_one_more_pair_may_not_end_in_the_budget(project):
    clock = itertools.count(0.0, 5.0)
    found = sides(project, FakeEngine(noisy(1.0)), FakeEngine(noisy(1.0)))
    plan = BenchPlan(30, 60.0)
    told = list(bench.take_turns(found, plan, Cancel(), lambda: next(clock)))

    assert 1 <= ended(told).pairs < 12
    assert "--budget" in ended(told).why


def test_a_failure_of_one_side_ends_both_and_the_other_keeps_what_it_has(project):
    failing = noisy(1.0)
    failing.at[3] = FakeResult(exit_code=9)
    outcome, _ = measured(project, noisy(1.0), failing, pairs=30)

    assert (outcome.failed, outcome.reason) == ("B", Reason.COMMAND_FAILED)
    assert outcome.pairs == 2
    assert outcome.runs[0].verdict.reason is Reason.DONE
    assert outcome.why.startswith("B ended: ")


def test_a_side_that_fails_in_its_first_round_ends_the_other(project):
    engine = FakeEngine(noisy(1.0))
    other = FakeEngine({"make": FakeResult(exit_code=2)})
    told = list(
        bench.take_turns(sides(project, other, engine), BenchPlan(3, 1e9), Cancel())
    )
    outcome = ended(told)

    assert (outcome.failed, outcome.reason) == ("A", Reason.COMMAND_FAILED)
    assert not [e for e in told if isinstance(e, PairEnded)]
    assert all(run.state.final for run in outcome.runs)


def ends(outcome: BenchOutcome) -> set[Reason]:
    runs = outcome.runs
    return {run.verdict.reason for run in runs if run.verdict}


@pytest.mark.parametrize("after", [1, 5, 40])
def test_a_cancel_ends_both(project, after):
    cancel = Cancel()
    found = sides(project, FakeEngine(noisy(1.0)), FakeEngine(noisy(1.0)))
    told = []
    for number, event in enumerate(
        bench.take_turns(found, BenchPlan(30, 1e9), cancel), 1
    ):
        told.append(event)
        if number == after:
            cancel.request()
    outcome = ended(told)

    assert ends(outcome) == {Reason.CANCELLED}
    assert outcome.reason is Reason.CANCELLED


def test_a_cancel_of_one_run_is_one_of_both(project):
    results = noisy(1.0)
    results.at[2] = FakeResult(cancels=True)
    outcome, _ = measured(project, noisy(1.0), results)

    assert ends(outcome) == {Reason.CANCELLED}
    assert outcome.runs[1].id in outcome.runs[0].verdict.message


def test_closing_it_early_ends_both_and_frees_everything(project):
    engines = (FakeEngine(noisy(1.0)), FakeEngine(noisy(1.0)))
    found = sides(project, *engines)
    with closing(bench.take_turns(found, BenchPlan(30, 1e9), Cancel())) as events:
        for event in events:
            if isinstance(event, PairEnded):
                break

    home = open_home(found.prepared[0].settings.home)
    records = [
        read(home.run(path.name)) for path in home.runs.iterdir() if path.is_dir()
    ]
    states = {record.state for record in records}
    assert states == {State.CANCELLED}


def read(paths: RunPaths) -> RunRecord:
    found = runs.read(paths)
    assert found is not None
    return found


def test_both_use_one_gpu_which_is_held_once_from_the_first_to_the_last(project):
    situation = GpuSituation((WayTried(GpuWay.NODES),), (FIRST, SECOND), "550")
    held: list[str] = []
    engines = [FakeEngine(noisy(1.0), situation=situation, held=held) for _ in range(2)]
    found = sides(project, *engines)
    most = 0
    told = []
    for event in bench.take_turns(found, BenchPlan(2, 1e9), Cancel()):
        told.append(event)
        most = max(most, len(held))
    outcome = ended(told)

    assert most == 1
    assert held == []
    assert not outcome.failed, outcome.why
    uses = [run.gpu for run in outcome.runs]
    assert [use.gpus for use in uses if use] == [(FIRST,), (FIRST,)]
