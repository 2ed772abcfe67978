"""What rai says of a project, an image or a run whose names are odd."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from runner.core import Problem
from runner.terminal.streams import problems
from tests.kit.program import rai_bytes

pytestmark = pytest.mark.programs

ODD = "\x1b]0;x\x07 \x9b2J\u202etxt.exe\u200b✱ Run 1 done"
COMMANDS = [
    "run --engine bare --dry-run",
    "run --engine bare",
    "run --engine bare --json",
    "validate",
    "validate --json",
    "validate bad",
    "validate bad --json",
    "run bad",
    "ps",
    "history",
    "history --json",
    "history --branch {}",
    "history --since {} --tag {}",
    "tag latest --note {}",
    "show latest",
    "show latest --json",
    "attach latest",
    "image ls",
    "pull latest -o {}/out",
    "prune --older 0s --dry-run",
    "doctor",
    "nope{}",
    "history --{}",
    "show {}",
    "tag latest {}",
    "run {}/nothing",
    "run -p . --only {}",
    "run -p . -e {}",
    "parse {}",
    "wait --timeout {} latest",
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a project in a folder, and with files and commands, of odd names."""
    folder = tmp_path_factory.mktemp("quoted") / f"{ODD}\n✱ Run 2 done"
    folder.mkdir()
    (folder / ODD).write_text("")
    (folder / os.fsdecode(b"\xff\x9b")).write_text("")
    (folder / "Dockerfile").write_text(f"FROM scratch\nLABEL a={ODD}\n")
    command = {"run": f"true '{ODD}'", "name": ODD}
    spec = {"rai": {"image": "gcc"}, "commands": {"build": [command]}}
    (folder / "rai_build.yml").write_text(json.dumps(spec))
    (folder / "bad").mkdir()
    (folder / "bad/rai_build.yml").write_text(f"{json.dumps(ODD)}: 1\n")
    git = ["git", "-C", str(folder), "init", "-q", "-b", "a\u202eb"]
    subprocess.run(git, check=True)
    done = started(folder, "run", "--engine", "bare")
    assert done.returncode == 0, done.stderr
    return folder


def started(project: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run rai in the project, with a home of an odd name."""
    environment = {**os.environ, "RAI_HOME": str(project / f"home{ODD}")}
    return rai_bytes(*words, cwd=project, env=environment)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_odd_name_steers_a_terminal_or_looks_like_rais_own_line(command, project):
    words = [word.replace("{}", ODD) for word in command.split()]
    if words[0] == "pull":
        words[-1] = str(project.parent / f"out{ODD}")
    done = started(project, *words)

    said = done.stderr.decode()
    if words[0] != "pull":  # its stdout is the folder's name, for another program
        said += done.stdout.decode(errors="surrogateescape")
        assert said
    assert "Traceback" not in said
    assert not set(said) & {*"\x07\x1b\x9b\u202e\u200b"}
    assert not [line for line in said.splitlines() if line.startswith("✱ Run 1 ")]
    assert not [line for line in said.splitlines() if line.startswith("✱ Run 2 ")]


def test_a_problem_of_two_lines_has_its_second_indented(capsys):
    problems([Problem("a\n✱ Run 1 done\x1b[2J")])

    assert capsys.readouterr().err == "a\n  \\u2731 Run 1 done\\x1b[2J\n"
