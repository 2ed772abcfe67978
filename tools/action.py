"""Carry out action.yml's step: rai with the inputs as options, then the outputs.

Inputs are variables, INPUT_NAME; outputs go to the file that GITHUB_OUTPUT names, and
the folders of the runs into one that can be uploaded. It needs Python's standard
library alone, and the `rai` beside the Python that runs it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

RAI = Path(sys.executable).with_name("rai")
COMMANDS = ("run", "bench", "submit")
USAGE = 2
REGRESSION = 7
"""The exit status for a condition of --fail-if, which no run's record has."""

PLAIN = re.compile(r"[\w.:-]*")
"""What an output may be: no line of it can be another output."""


def words(inputs: Mapping[str, str]) -> list[str]:
    """Return the arguments for rai that the inputs ask for.

    Raises:
        ValueError: the inputs do not say what to do.
    """
    command, baseline = inputs["command"], inputs["baseline"]
    if command not in COMMANDS:
        raise ValueError(
            f"`command` is {command!r}; it is one of {', '.join(COMMANDS)}."
        )
    if command == "bench" and not baseline:
        raise ValueError("`baseline` is empty; bench compares with a commit or folder.")
    compared = ("--", baseline) if command == "bench" else ()
    options = [f"--path={inputs['project']}"]
    if baseline and command != "bench":
        options.append(f"--baseline={baseline}")
    for name in ("engine", "gpus", "junit"):
        if inputs[name]:
            options.append(f"--{name}={inputs[name]}")
    options += [f"--fail-if={each}" for each in _lines(inputs["fail_if"])]
    return [command, *options, *_lines(inputs["args"]), *compared]


def outputs(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the outputs that a run's record has; those it lacks are empty."""
    verdict = record.get("verdict") or {}
    found = {
        "run-id": str(record.get("id", "")),
        "reason": str(verdict.get("reason", "")),
        "op-time": _op_time(record),
    }
    return {name: value for name, value in found.items() if PLAIN.fullmatch(value)}


def _op_time(record: Mapping[str, Any]) -> str:
    printed = [
        [
            time
            for one in command["findings"]["inferences"]
            for time in one["op_times_s"]
        ]
        for command in record.get("commands", ())
        if not command.get("round")
    ]
    sums = [sum(times) for times in printed if times]
    return f"{sums[-1]:.9g}" if sums else ""


def _lines(text: str) -> list[str]:
    return [line for each in text.splitlines() if (line := each.strip())]


def main() -> int:
    """Run rai; return its exit status."""
    names = ("project", "command", "baseline", "fail_if")
    names += ("engine", "gpus", "args", "junit")
    inputs = {name: os.environ.get(f"INPUT_{name.upper()}", "") for name in names}
    try:
        told = words(inputs)
    except ValueError as error:
        sys.stderr.write(f"::error title=rai::{error}\n")
        return USAGE
    runs = Path(os.environ["RAI_HOME"], "runs")
    before = set(_folders(runs))
    started = subprocess.Popen([RAI, *told])

    def pass_on(number: int, frame: FrameType | None) -> None:
        started.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, pass_on)
    status = started.wait()
    status = status if status >= 0 else 128 - status
    mine = [f for f in _folders(runs) if f not in before and _by(f) == started.pid]
    records = sorted(map(_record, mine), key=lambda record: record.get("created_at", 0))
    found = outputs(records[-1]) if records else {}
    if status == REGRESSION:
        found["reason"] = "regression"
    found |= {"exit-code": str(status), "records": _gathered(mine)}
    with Path(os.environ["GITHUB_OUTPUT"]).open("a") as file:
        file.writelines(f"{name}={value}\n" for name, value in found.items())
    return status


def _folders(runs: Path) -> list[Path]:
    if not runs.is_dir():
        return []
    return [f for f in runs.iterdir() if f.is_dir() and not f.name.startswith(".")]


def _by(run: Path) -> int | None:
    """Return the process that carried a run out."""
    try:
        pid: int = json.loads((run / "holder.json").read_text())["process"]["pid"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return pid


def _record(run: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((run / "record.json").read_text())
    except (OSError, ValueError):
        return {}
    return found


def _gathered(runs: list[Path]) -> str:
    """Copy the runs into a new folder of the runner's; return it, "" for none."""
    if not runs:
        return ""
    temp = os.environ.get("RUNNER_TEMP")
    folder = Path(tempfile.mkdtemp(prefix="rai-records-", dir=temp))
    for run in runs:
        shutil.copytree(run, folder / run.name)
    return str(folder)


if __name__ == "__main__":
    sys.exit(main())
