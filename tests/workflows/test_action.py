"""The action, as another repository's workflow uses it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.workflows import jobs, tiny
from tests.workflows.machine import Machine, pairs
from tests.workflows.repositories import ROOT, commit
from tools import action

NONE = dict.fromkeys(("baseline", "fail_if", "engine", "gpus", "args", "junit"), "")
RUN_ID = "${{ steps.run.outputs.run-id }}"
RUN = {**NONE, "project": ".", "command": "run"}


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({}, ["run", "--path=."]),
        (
            {"fail_if": "op_time>3%\n\n correctness<0.8 ", "baseline": "best"},
            [
                *("run", "--path=.", "--baseline=best"),
                *("--fail-if=op_time>3%", "--fail-if=correctness<0.8"),
            ],
        ),
        (
            {"command": "bench", "baseline": "HEAD^", "args": "--pairs\n12\n"},
            ["bench", "--path=.", "--pairs", "12", "--", "HEAD^"],
        ),
        (
            {"project": "--json", "engine": "--x", "gpus": "$(id)", "junit": "a b"},
            ["run", "--path=--json", "--engine=--x", "--gpus=$(id)", "--junit=a b"],
        ),
    ],
)
def test_inputs_become_options(inputs, words):
    assert action.words({**RUN, **inputs}) == words


@pytest.mark.parametrize(
    ("inputs", "why"),
    [
        ({"command": "rm"}, "`command` is 'rm'"),
        ({"command": ""}, "`command` is ''"),
        ({"command": "bench"}, "`baseline` is empty"),
    ],
)
def test_inputs_that_do_not_say_what_to_do_are_refused(inputs, why):
    with pytest.raises(ValueError, match=why):
        action.words({**RUN, **inputs})


def test_what_a_record_says_cannot_become_another_output():
    record = {"id": "ab\nexit-code=0", "verdict": {"reason": "done"}, "commands": []}
    assert action.outputs(record) == {"reason": "done", "op-time": ""}


def test_the_op_time_is_that_of_the_last_command_with_one_in_its_first_round():
    def command(*inferences: tuple[float, ...], **more: int) -> dict:
        printed = [{"op_times_s": times} for times in inferences]
        return {"findings": {"inferences": printed}, **more}

    commands = [
        command((3.0,)),
        command((0.25,), (0.0625, 0.0625)),
        command(()),
        command((9.0,), round=1),
    ]
    assert action.outputs({"commands": commands})["op-time"] == "0.375"


@pytest.mark.programs
@pytest.mark.slow
@pytest.mark.local
def test_a_job_runs_measures_and_fails_as_its_inputs_say(tmp_path):
    repository = tmp_path / "repository"
    commit(repository, tiny.files(op_time=0.5))
    wrong = tiny.files(command="exit 3")["rai_build.yml"]
    head = commit(repository, {**tiny.files(op_time=0.5), "wrong/rai_build.yml": wrong})
    github = {"sha": head, "event": {}}
    machine = Machine(tmp_path / "runner", repository, github, {"OWNER/rai": ROOT})
    uses = {"uses": "OWNER/rai@v1"}
    given = {"engine": "local", "python-version": "3.12"}
    steps = [
        {"uses": f"actions/checkout@{'0' * 40}", "with": {"fetch-depth": 0}},
        {"id": "run", **uses, "with": {**given, "junit": "junit.xml"}},
        {
            "id": "bench",
            **uses,
            "with": {
                **given,
                "command": "bench",
                "baseline": "HEAD^",
                "fail-if": "op_time>3%",
                "artifact": "bench",
            },
        },
        {
            "id": "wrong",
            "name": "wrong",
            "continue-on-error": True,
            **uses,
            "with": {**given, "project": "wrong", "artifact": ""},
        },
        {"name": "rai is there", "run": 'rai show "$ID"', "env": {"ID": RUN_ID}},
    ]

    scope = jobs.carry_out(
        {"on": {}, "jobs": {"job": {"steps": steps}}}, "job", machine
    )

    said = "\n".join(machine.said)
    assert scope.state == "success", said
    assert scope.ended["wrong"] == "failure"
    run, bench, failed = (scope.steps[n]["outputs"] for n in ("run", "bench", "wrong"))
    assert (run["reason"], run["exit-code"], run["op-time"]) == ("done", "0", "0.5")
    assert run["run-id"] in machine.said[-1]
    assert (bench["reason"], bench["exit-code"]) == ("done", "0")
    assert (failed["reason"], failed["exit-code"]) == ("command_failed", "1")
    assert (machine.workspace / "junit.xml").is_file()
    assert len(list((machine.artifacts / "rai").rglob("record.json"))) == 1
    assert len(list((machine.artifacts / "bench").rglob("record.json"))) == 2
    assert sorted(p.name for p in machine.artifacts.iterdir()) == ["bench", "rai"]
    assert run["run-id"] in machine.summary
    assert "::error file=wrong/rai_build.yml,line=" in said


@pytest.mark.programs
@pytest.mark.lengthy
@pytest.mark.local
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_cancelled_job_ends_the_run_and_still_gives_outputs(tmp_path, number):
    project = tmp_path / "project"
    project.mkdir()
    (project / "rai_build.yml").write_text(
        tiny.files(command="echo begun; sleep 600")["rai_build.yml"]
    )
    outputs = tmp_path / "outputs"
    inputs = {f"INPUT_{name.upper()}": value for name, value in RUN.items()}
    env = {**os.environ, **inputs, "INPUT_PROJECT": str(project)}
    env |= {"INPUT_ENGINE": "local", "GITHUB_OUTPUT": str(outputs)}
    env |= {
        "RAI_HOME": str(tmp_path / "home"),
        "RUNNER_TEMP": str(tmp_path),
        "CI": "true",
    }
    log = tmp_path / "log"
    with log.open("wb") as out:
        started = subprocess.Popen(
            [sys.executable, action.__file__], env=env, stdout=out, stderr=out
        )
        while b"\nbegun" not in log.read_bytes():
            assert started.poll() is None, log.read_text()
            time.sleep(0.05)
        started.send_signal(number)
        status = started.wait(60)

    found = pairs(outputs.read_text())
    assert (status, found["exit-code"], found["reason"]) == (130, "130", "cancelled")
    (record,) = Path(found["records"]).rglob("record.json")
    assert json.loads(record.read_text())["id"] == found["run-id"]
