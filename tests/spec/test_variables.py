"""Variables of the build file and of `-e`: they reach commands, and no record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner import engines
from runner.core import Reason
from runner.core.errors import Cancel, UsageError
from runner.core.work import Secrets
from runner.engines import Choice
from runner.execution import prepare, session
from runner.spec import buildfile
from tests.kit.fake_engine import FakeEngine, FakeResult
from tests.spec.test_spec import wrong

SPEC = """\
env: {BATCH: 100, EMPTY: ""}
commands:
  build:
    - ./bench
    - {run: ./more, env: [BATCH=1000]}
"""


def test_variables_are_of_all_commands_or_of_one():
    spec, warnings = buildfile.parse(SPEC, "f.yml")
    assert warnings == []
    assert spec.env == (("BATCH", "100"), ("EMPTY", ""))
    assert [command.env for command in spec.commands] == [(), (("BATCH", "1000"),)]


def test_every_wrong_variable_is_told_with_its_place():
    text = """\
env:
  1X: a
  RAI_X: b
  LATER:
  MORE: [c]
  GPUS: "a\\0b"
commands:
  build:
    - {run: make, env: [CUDA_VISIBLE_DEVICES=0, NAME]}
    - {run: make, env: text}
"""
    found = wrong(text)
    assert [problem.partition(": ")[0] for problem in found] == [
        *("f.yml:2:3", "f.yml:3:3", "f.yml:4:9", "f.yml:5:9", "f.yml:6:9"),
        *("f.yml:9:25", "f.yml:9:49", "f.yml:10:24"),
    ]
    assert "begins with no digit" in found[0]
    assert "rai's own" in found[1]
    assert "rai run -e LATER" in found[2]
    assert "--gpus chooses" in found[5]


def test_a_dollar_is_literal_and_said_to_be():
    spec, (warning,) = buildfile.parse(
        "env: {A: $HOME, B: costs 5$}\ncommands: {build: [make]}\n", "f.yml"
    )
    assert dict(spec.env) == {"A": "$HOME", "B": "costs 5$"}
    assert str(warning).startswith("f.yml:1:10: warning: env.A: nothing is expanded")


PROJECT = {"rai_build.yml": SPEC}


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    says = FakeResult(b"with hunter2\nOp Time: 0.5\n", b"hunter2", exit_code=1)
    made = FakeEngine({"./bench": says})
    monkeypatch.setattr(engines, "choose", lambda *_, **__: Choice((made,), "x"))
    return made


def started(project: Path, **options) -> session.Run:
    given = prepare.Options(secrets=Secrets({"TOKEN": "hunter2"}), **options)
    return session.start(prepare.prepare(project, given))


def test_commands_get_them_all_and_the_command_line_wins(project, engine):
    secrets = Secrets({"BATCH": "7"})
    options = prepare.Options(secrets=secrets, keep_going=True)
    run = session.start(prepare.prepare(project, options))
    list(run.events(Cancel()))
    assert engine.variables == [{"BATCH": "7", "EMPTY": ""}] * 2


def test_a_value_given_is_in_no_file_of_the_run_and_its_name_is(project, engine):
    run = started(project, keep_going=True)
    told = list(run.events(Cancel()))

    assert engine.variables[0]["TOKEN"] == "hunter2"
    assert "hunter2" not in repr(told)
    for file in run.paths.root.iterdir():
        assert b"hunter2" not in file.read_bytes(), file
    assert run.paths.stdout.read_text() == "with ***\nOp Time: 0.5\n"
    assert run.record.env_given == ("TOKEN",)
    assert json.loads(run.paths.record.read_text())["env_given"] == ["TOKEN"]


def test_a_repeated_run_needs_the_values_again(project, engine):
    run = started(project)
    list(run.events(Cancel()))

    with pytest.raises(UsageError, match="-e TOKEN=VALUE"):
        prepare.reopen(run.paths)
    with pytest.raises(UsageError, match="only TOKEN"):
        prepare.reopen(run.paths, values={"TOKEN": "a", "OTHER": "b"})
    again = prepare.reopen(run.paths, values={"TOKEN": "another"})
    assert again.request.asked.secret.values == {"TOKEN": "another"}


def test_wrong_names_and_values_are_all_told(project):
    values = {"1X": "", "RAI_HOME": "x", "A": "\0", "B": "x" * 70_000, "C": "\udc80"}
    with pytest.raises(UsageError) as caught:
        prepare.prepare(project, prepare.Options(secrets=Secrets(values)))
    assert len(caught.value.problems) == 5
    assert caught.value.reason is Reason.USAGE
