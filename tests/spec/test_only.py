"""`--only`: which commands it names, and what becomes of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner import engines
from runner.core import Command, Outcome, Reason, RunRecord
from runner.core.errors import Cancel, UsageError
from runner.engines import Choice
from runner.execution import prepare, session
from runner.spec.buildfile import left_out
from tests.kit.fake_engine import FakeEngine, FakeResult

COMMANDS = (
    Command("make -C /src", name="compile"),
    Command("python /src/project/m2.1.py 100"),
    Command("python /src/project/m3.1.py 100"),
    Command("python /src/project/m3.1.py 1000"),
    Command("python /src/project/final.py", name="best"),
    Command("python /src/project/final.py 10", name="best"),
)


@pytest.mark.parametrize(
    ("only", "kept"),
    [
        ([], [0, 1, 2, 3, 4, 5]),
        (["compile"], [0]),
        (["2", "4"], [1, 3]),
        (["m2.1"], [1]),
        (["make", "final.py 10"], [0, 5]),
        (["best"], [4, 5]),
    ],
)
def test_a_word_is_a_name_a_number_or_stands_in_one_command_alone(only, kept):
    assert sorted(set(range(6)) - left_out(COMMANDS, only)) == kept


def test_what_names_no_command_or_several_is_told_with_the_list():
    with pytest.raises(UsageError) as caught:
        left_out(COMMANDS, ["m3.1", "7", "m2", "compil", "m2.2"])
    found = [str(problem) for problem in caught.value.problems]
    assert "several commands hold it: 3, 4; use their numbers" in found[0]
    assert found[1] == "--only 7: no such command"
    assert "did you mean `m2.1`?" in found[2]
    assert "did you mean `compile`?" in found[3]
    assert "did you mean `m2.1`?" in found[4]
    assert found[5].startswith("the commands are: 1 compile; 2 python")


SPEC = "commands: {build: [{run: first, name: one}, second, third]}\n"


def ran(folder: Path, monkeypatch: pytest.MonkeyPatch, code: int = 0) -> RunRecord:
    folder.joinpath("rai_build.yml").write_text(SPEC)
    engine = FakeEngine({"second": FakeResult(exit_code=code)})
    monkeypatch.setattr(engines, "choose", lambda *_, **__: Choice((engine,), ""))
    prepared = prepare.prepare(folder, prepare.Options(only=("2",)))
    run = session.start(prepared)
    list(run.events(Cancel()))
    assert engine.ran == ["second"]
    again = prepare.reopen(run.paths).request
    assert (again.asked.only, again.left_out) == (("2",), {0, 2})
    return run.record


def test_what_is_left_out_is_recorded_as_skipped_with_that_reason(
    tmp_path, monkeypatch
):
    found = ran(tmp_path, monkeypatch)

    skipped = Outcome.SKIPPED, "left out by --only"
    outcomes = [(command.outcome, command.why) for command in found.commands]
    assert outcomes == [skipped, (Outcome.OK, ""), skipped]
    assert found.only == ("2",)
    assert found.verdict.reason is Reason.DONE


def test_a_failure_says_that_it_may_need_what_was_left_out(tmp_path, monkeypatch):
    verdict = ran(tmp_path, monkeypatch, code=1).verdict
    assert verdict
    assert verdict.reason is Reason.COMMAND_FAILED
    assert "--only left out" in verdict.hint
    assert "--keep-going" not in verdict.hint


def test_what_is_left_out_gets_no_warnings(tmp_path):
    text = "commands: {build: ['echo \"$A\"', 'echo \"$B\"']}\n"
    (tmp_path / "rai_build.yml").write_text(text)

    warned = prepare.prepare(tmp_path, prepare.Options(only=("2",))).warnings

    assert [w.message.split()[0] for w in warned if w.place] == ["`$B`"]
