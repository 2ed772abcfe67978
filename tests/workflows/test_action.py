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

from tools import action

NONE = dict.fromkeys(("baseline", "fail_if", "engine", "gpus", "args", "junit"), "")
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
@pytest.mark.lengthy
@pytest.mark.local
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_cancelled_job_ends_the_run_and_still_gives_outputs(tmp_path, number):
    project = tmp_path / "project"
    project.mkdir()
    (project / "rai_build.yml").write_text(
        "rai: {version: 0.2, image: 'debian:bookworm-slim'}\n"
        "commands: {build: ['echo begun; sleep 600']}\n"
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

    found = dict(line.split("=", 1) for line in outputs.read_text().splitlines())
    assert (status, found["exit-code"], found["reason"]) == (130, "130", "cancelled")
    (record,) = Path(found["records"]).rglob("record.json")
    assert json.loads(record.read_text())["id"] == found["run-id"]
