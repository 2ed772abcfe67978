"""Rounds: commands of a run that are measured several times."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from runner.core import Reason, RunRecord, Workspace, events, record
from runner.core.errors import Cancel
from runner.core.screen import Terminal
from runner.execution import job
from runner.store import runs
from tests.execution import test_job
from tests.kit.fake_engine import FakeEngine, FakeResult

SPEC = """\
rai: {version: 0.2}
commands:
  build:
    - make
    - {name: final, run: ./final}
    - ./report
"""
FIGURES = FakeResult(b"New Inference\nOp Time: 0.25\nCorrectness: 0.8 Model: m\n")


class Changing(dict[str, list[FakeResult]]):
    """Results of commands that differ from one time to the next; the last one stays."""

    def get(self, text: str, default: FakeResult) -> FakeResult:  # type: ignore[override]
        results = super().get(text, [default])
        return results.pop(0) if len(results) > 1 else results[0]


PROJECT = {"main.c": "int main() {}\n"}


def carry_out(
    project: Path,
    engine: FakeEngine,
    text: str = SPEC,
    cancel_after: int | None = None,
    **asked: Any,
) -> tuple[RunRecord, list[events.Event]]:
    """Run a project; cancel it when the round of this number has ended."""
    cancel = Cancel()

    def heard(event: events.Event) -> None:
        if isinstance(event, events.RoundEnded) and event.round == cancel_after:
            cancel.request()

    asked = {"text": text, "cancel": cancel, "heard": heard, **asked}
    found, told, home = test_job.carry_out(project, engine, **asked)
    assert record.fold(runs.stamped(home.run(found.id))) == found
    return found, told


def test_the_command_that_printed_figures_is_repeated(project: Path):
    engine = FakeEngine({"./final": FIGURES})
    found, told = carry_out(project, engine, repeat=3)
    assert engine.ran == ["make", "./final", "./report", "./final", "./final"]
    again = found.commands[3:]
    assert [(c.index, c.repeats, c.round) for c in again] == [(3, 1, 1), (4, 1, 2)]
    assert {c.name for c in again} == {"final"}
    assert all(c.findings.inferences[0].op_times_s == (0.25,) for c in again)
    ended = [event.round for event in told if isinstance(event, events.RoundEnded)]
    assert ended == [0, 1, 2]


def test_the_last_command_is_repeated_if_none_printed_figures(project: Path):
    engine = FakeEngine()
    carry_out(project, engine, repeat=2)
    assert engine.ran == ["make", "./final", "./report", "./report"]


def test_the_findings_of_a_run_are_those_of_its_first_round(project: Path):
    found, _ = carry_out(project, FakeEngine({"./final": FIGURES}), repeat=5)
    assert len(found.findings.inferences) == 1
    assert found.findings.inferences[0].source.number == 2
    assert [c.text for c in found.first_round] == ["make", "./final", "./report"]
    assert found.repeat == 5


def test_whoever_starts_a_run_may_decide_after_each_round(project: Path):
    asked = []

    def go_on(count: int) -> bool:
        asked.append(count)
        return count < 3

    engine = FakeEngine({"./final": FIGURES})
    carry_out(project, engine, go_on=go_on)
    assert asked == [1, 2, 3]
    assert engine.ran.count("./final") == 3


def test_no_run_has_rounds_without_end(project: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(job, "MOST_ROUNDS", 20)
    engine = FakeEngine({"./final": FIGURES})
    found, _ = carry_out(project, engine, go_on=lambda _: True)
    assert found.rounds == 20


WRONG = FakeResult(b"New Inference\nOp Time: 0.1\nCorrectness: 0.1 Model: m\n")


@pytest.mark.parametrize(
    ("late", "reason", "message"),
    [
        (FakeResult(exit_code=3), "command_failed", "`./final` exited 3 in round 3"),
        (WRONG, "wrong_answer", "command 2, final in round 3: expected"),
        (
            FakeResult(exit_code=137, reason=Reason.MEMORY_LIMIT),
            "memory_limit",
            "und 3",
        ),
    ],
)
def test_what_goes_wrong_in_a_later_round_ends_the_run_as_in_the_first(
    project: Path, late: FakeResult, reason: str, message: str
):
    text = SPEC.replace("run: ./final", "run: ./final, expect: {correctness: 0.8}")
    script = Changing({"./final": [FIGURES, FIGURES, late, FIGURES]})
    engine = FakeEngine(script)  # type: ignore[arg-type]
    found, _ = carry_out(project, engine, text, repeat=9)
    assert engine.ran.count("./final") == 3
    assert found.verdict.reason.value == reason
    assert message in found.verdict.message
    assert "--keep-going" not in found.verdict.advice
    assert found.build_bytes


def test_a_failure_in_the_first_round_leaves_nothing_to_repeat(project: Path):
    engine = FakeEngine({"./final": FakeResult(exit_code=1)})
    _, told = carry_out(project, engine, repeat=3)
    assert engine.ran == ["make", "./final"]
    assert not [event for event in told if isinstance(event, events.RoundEnded)]


def test_a_run_says_so_if_what_it_shall_measure_failed(project: Path):
    engine = FakeEngine({"./final": FakeResult(exit_code=1)})
    found, _ = carry_out(
        project, engine, keep_going=True, repeat=3, repeated=frozenset({1})
    )
    assert engine.ran == ["make", "./final", "./report"]
    assert "nothing is repeated" in found.warnings[-1]


def test_a_run_says_which_command_is_not_repeated_though_it_is_named(project: Path):
    engine = FakeEngine({"./final": FakeResult(exit_code=1)})
    found, _ = carry_out(
        project, engine, keep_going=True, repeat=2, repeated=frozenset({1, 2})
    )
    assert engine.ran == ["make", "./final", "./report", "./report"]
    assert found.warnings[-1].endswith("in the first round: command 2")


def test_with_keep_going_a_repeat_that_fails_ends_nothing_and_is_told(project: Path):
    script = Changing({"./final": [FIGURES, FakeResult(exit_code=3), FIGURES]})
    engine = FakeEngine(script)  # type: ignore[arg-type]
    found, _ = carry_out(project, engine, keep_going=True, repeat=4)
    assert engine.ran.count("./final") == 4
    assert found.verdict.message == "`./final` exited 3 in round 2"


def test_a_run_that_is_cancelled_between_rounds_keeps_what_it_has(project: Path):
    engine = FakeEngine({"./final": FIGURES})
    found, _ = carry_out(project, engine, repeat=9, cancel_after=2)
    assert engine.ran.count("./final") == 3
    assert found.verdict.reason is Reason.CANCELLED
    assert len(found.commands) == 5
    assert found.build_bytes


def test_repeats_end_with_their_budget_and_the_run_says_so(project: Path):
    engine = FakeEngine({"./final": FIGURES})
    found, _ = carry_out(project, engine, repeat=9, budget_s=1e-9)
    assert engine.ran.count("./final") == 2
    assert found.verdict.reason is Reason.DONE
    assert "measured in 2 of 9 rounds" in found.warnings[-1]


def test_the_engine_knows_how_long_the_last_round_may_take(project: Path):
    class Asked(FakeEngine):
        more_s = -1.0

        def run(
            self, work: Workspace, cancel: Cancel, terminal: Terminal | None = None
        ) -> Generator[events.Event, None, None]:
            self.more_s = work.more_s
            return super().run(work, cancel, terminal)

    once, often = Asked({}), Asked({})
    carry_out(project, once)
    text = SPEC + "resources: {limits: {time: 4h}}\n"
    carry_out(project, often, text, repeat=2, budget_s=90.0, idle_s=10.0)

    assert once.more_s == 0
    assert often.more_s == 90 + 4 * 3600 + 10
