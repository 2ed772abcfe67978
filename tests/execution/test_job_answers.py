"""Right and wrong answers: what stops a run, and how it ends."""

from __future__ import annotations

import pytest

from runner.core import Outcome, Reason, RunRecord, events
from tests.execution.test_job import PROJECT, carry_out
from tests.kit.fake_engine import FakeEngine, FakeResult

__all__ = ["PROJECT"]

TEXT = """\
commands:
  build:
    - {run: first, name: tiled, expect: {correctness: 0.8898}%s}
    - {run: second, expect: {output: done}}
    - third
"""
RIGHT = FakeResult(b"Correctness: 0.8898 Model: m\n")
WRONG = FakeResult(b"Correctness: 0.1 Model: m\n")
DONE = FakeResult(stderr=b"done\n")


def ran(
    project,
    first: FakeResult,
    second: FakeResult = DONE,
    more: str = "",
    *,
    keep_going: bool = False,
    third: FakeResult | None = None,
) -> RunRecord:
    script = {"first": first, "second": second, "third": third or FakeResult()}
    engine = FakeEngine(script)
    found, _, _ = carry_out(project, engine, text=TEXT % more, keep_going=keep_going)
    assert found.verdict is not None
    return found


def outcomes(found: RunRecord) -> str:
    return " ".join(command.outcome for command in found.commands)


def test_a_run_with_right_answers_has_passed(project):
    found = ran(project, RIGHT)

    assert found.verdict.reason is Reason.DONE
    assert found.verdict.passed is True
    assert [check.holds for check in found.commands[0].checks] == [True]


def test_the_first_wrong_answer_ends_the_run(project):
    found = ran(project, WRONG)

    assert outcomes(found) == "wrong skipped skipped"
    assert found.commands[1].why == "the answer of command 1 is wrong"
    verdict = found.verdict
    assert (verdict.served, verdict.ran, verdict.passed) == (True, True, False)
    assert verdict.reason is Reason.WRONG_ANSWER
    assert verdict.reason.exit_code == 4
    assert verdict.message == (
        "command 1, tiled: expected correctness 0.8898, found correctness 0.1"
        " (rai_build.yml:3:55)"
    )
    assert "--keep-going" in verdict.advice


def test_what_is_missing_is_wrong(project):
    found = ran(project, RIGHT, FakeResult())

    assert outcomes(found) == "ok wrong skipped"
    assert 'output "done", which was not printed' in found.verdict.message


@pytest.mark.parametrize(
    ("more", "keep_going"), [("", True), (", continue_on_error: true", False)]
)
def test_the_rest_may_run_and_the_answer_stays_wrong(
    project,
    more,
    keep_going,
):
    found = ran(project, WRONG, more=more, keep_going=keep_going)

    assert outcomes(found) == "wrong ok ok"
    assert found.verdict.reason is Reason.WRONG_ANSWER
    assert found.verdict.passed is False
    assert "--keep-going" not in found.verdict.advice


def test_a_failed_command_is_the_reason_before_a_wrong_answer(project):
    failed = FakeResult(exit_code=1)
    found = ran(project, WRONG, third=failed, keep_going=True)

    assert found.verdict.reason is Reason.COMMAND_FAILED
    assert (found.verdict.ran, found.verdict.passed) == (False, False)
    assert found.verdict.message.startswith("`third` exited 1; command 1, tiled: exp")


def test_a_failed_command_with_the_right_answer_has_not_passed(project):
    found = ran(project, FakeResult(RIGHT.stdout, exit_code=1))

    assert found.verdict.reason is Reason.COMMAND_FAILED
    assert found.verdict.passed is None
    assert found.commands[0].outcome is Outcome.FAILED
    assert found.commands[0].checks[0].holds


def test_a_failure_that_does_not_count_still_owes_its_answer(project):
    more = ", continue_on_error: true"
    found = ran(project, FakeResult(exit_code=1), more=more)

    assert outcomes(found) == "failed ok ok"
    assert found.verdict.reason is Reason.WRONG_ANSWER


def test_a_limit_comes_first_and_its_command_claims_nothing(project):
    late = FakeResult(exit_code=143, reason=Reason.TIME_LIMIT)
    found = ran(project, WRONG, late, keep_going=True)

    assert found.verdict.reason is Reason.TIME_LIMIT
    assert found.verdict.passed is False
    assert "expected correctness 0.8898" in found.verdict.message
    assert found.commands[1].checks == ()


def test_a_skipped_command_claims_nothing(project):
    text = """\
resources: {gpu: {count: 1, optional: true}}
commands:
  build:
    - {run: first, needs: gpu, expect: {correctness: 1}}
    - second
"""
    found, told, _ = carry_out(project, FakeEngine(), text=text)

    assert outcomes(found) == "skipped ok"
    assert found.verdict.reason is Reason.DONE
    assert found.verdict.passed is None
    assert not any(isinstance(event, events.Checked) for event in told)
    warned = [event.text for event in told if isinstance(event, events.Warned)]
    assert warned[0].endswith("); skipping the commands that need one")


def test_without_commands_that_need_a_gpu_none_are_said_to_be_skipped(project):
    text = """\
resources: {gpu: {count: 1, optional: true}}
commands: {build: [first]}
"""
    _, told, _ = carry_out(project, FakeEngine(), text=text)

    warned = [event.text for event in told if isinstance(event, events.Warned)]
    assert warned == ["no GPU here (this machine has no GPU)"]
