"""What a shell completes, and that it never hears of an error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runner.cli import completion, main, suggestions
from runner.core import GitState, RunRecord, State
from runner.core.errors import UsageError
from runner.store import index
from runner.store.paths import Home

RAI = str(Path(sys.executable).with_name("rai"))
GIT = GitState("c" * 40, "main")
EVIL = """
commands:
  build:
    - {run: make, name: "x; touch bad"}
    - {run: make, name: "x$(touch bad)"}
    - {run: make, name: "x\\n:files"}
    - {run: make, name: xx}
"""
SPEC = "commands:\n  build:\n    - {run: make, name: compile}\n    - python m2.1.py\n"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("RAI_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    records = [
        RunRecord("aaa1", "/p", "rai_build.yml", 1.0, State.DONE),
        RunRecord("aaa2", "/p", "rai_build.yml", 2.0, State.RUNNING),
        RunRecord("bbb3", "/p", "rai_build.yml", 3.0, State.DONE, git=GIT),
    ]
    with index.open_index(Home(tmp_path).index) as listed:
        listed.put(*records)
        listed.tag({"aaa1": "fast"})
    return tmp_path


def offered(line: str) -> list[str]:
    *before, last = line.split(" ")
    return suggestions.offered(before, last, main.COMMANDS, main.command)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("sho", ["show"]),
        ("show ", ["latest", "fast", "bbb3", "aaa2", "aaa1"]),
        ("show aaa", ["aaa1", "aaa2"]),
        ("show f", ["fast"]),
        ("show --json l", ["latest"]),
        ("show aaa1 ", []),
        ("rm aaa1 b", ["bbb3"]),
        ("cancel ", ["aaa2"]),
        ("run --wait-for l", ["latest"]),
        ("run --engine ", ["auto", "docker", "local", "bare"]),
        ("run --engine=l", ["--engine=local"]),
        ("-p . --prof", ["--profile"]),
        ("run --profile s", ["strict"]),
        ("run -p ", [suggestions.FOLDERS]),
        ("run --path=", [suggestions.FOLDERS]),
        ("parse ", [suggestions.FILES]),
        ("run --keep-going --dr", ["--dry-run"]),
        ("image pr", ["prune"]),
        ("completion ", ["bash", "zsh", "fish"]),
        ("run --gpus ", []),
        ("history --sort ", ["when", "took", "op-time", "size"]),
        ("history --format ", ["table", "json", "csv"]),
        ("history --reason f", ["failed"]),
        ("history --tag ", ["fast"]),
        ("history --branch m", ["main"]),
        ("history --project ", [suggestions.FOLDERS]),
        ("history --plot -o ", [suggestions.FILES]),
        ("note f", ["fast"]),
        ("nonsense ", []),
    ],
)
def test_each_place_is_offered_what_belongs_there(line, expected):
    assert offered(line) == expected


def test_commands_of_the_project_are_offered_for_only(tmp_path):
    (tmp_path / "rai_build.yml").write_text(SPEC)

    assert offered(f"run -p {tmp_path} --only m") == ["make", "m2.1.py", "m2.1"]
    assert offered(f"run {tmp_path} --only comp") == ["compile"]


def test_a_name_that_a_shell_would_carry_out_is_not_offered(tmp_path, capsys):
    (tmp_path / "rai_build.yml").write_text(EVIL)

    words = ["run", "-p", str(tmp_path), "--only", "x"]
    suggestions.show(words, main.COMMANDS, main.command)

    assert capsys.readouterr().out == "xx\n"


def test_many_commands_are_searched_in_linear_time(tmp_path):
    lines = (f"    - run w{n}\n" for n in range(8000))
    text = "commands:\n  build:\n" + "".join(lines)
    (tmp_path / "rai_build.yml").write_text(text)

    assert offered(f"run -p {tmp_path} --only w9")[:2] == ["w9", "w90"]


def test_images_of_the_settings_are_offered(tmp_path):
    file = tmp_path / "config" / "rai" / "config.yml"
    file.parent.mkdir(parents=True)
    file.write_text('images: {"old/*": my/course}\n')

    assert offered("run --image my") == ["my/course"]


def test_no_more_than_fifty_are_offered(home):
    with index.open_index(Home(home).index) as listed:
        many = (RunRecord(f"c{n:03}", "/p", "f", float(n)) for n in range(200))
        listed.put(*many)

    assert len(offered("show c")) == 50
    assert offered("show ")[:3] == ["latest", "fast", "c199"]


@pytest.mark.parametrize("line", ["show ", "run --only x", "run --image ", "image x "])
def test_an_error_says_nothing(line, home, capsys, monkeypatch):
    monkeypatch.chdir(home)
    Home(home).index.write_bytes(b"no database")

    suggestions.show(line.split(" "), main.COMMANDS, main.command)

    assert capsys.readouterr() == ("", "")


def test_a_shell_that_has_no_script_is_refused_with_those_that_have():
    with pytest.raises(UsageError, match="bash, zsh and fish"):
        completion.completion("csh")


@pytest.mark.programs
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rai sho", ["show"]),
        ("rai show aa", ["aaa1", "aaa2"]),
        ("rai run --engine=lo", ["local"]),
        ("rai run --image my/course:", ["1", "2"]),
    ],
)
def test_bash_completes_by_the_script(line, expected, home):
    """Bash cuts words at `:` and `=`, and inserts only what follows these."""
    file = home / "config" / "rai" / "config.yml"
    file.parent.mkdir(parents=True)
    file.write_text('images: {"a/*": "my/course:1", "b/*": "my/course:2"}\n')
    call = f'COMP_LINE="{line}" COMP_POINT={len(line)}; _rai {RAI}'
    script = f"{completion.BASH}\n{call}\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""

    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    )

    assert done.stdout.split() == expected, done.stderr
