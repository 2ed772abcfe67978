"""What a shell completes, and that it never hears of an error."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runner.cli import suggestions
from runner.core import RunRecord, State, record
from runner.store.paths import Home
from tests.kit.program import RAI, rai, run_program

SPEC = """
commands:
  build:
    - {run: make, name: compile}
    - python m2.1.py
    - {run: gcc, name: "m; touch bad"}
    - {run: clang, name: "m$(touch bad)"}
"""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("RAI_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    records = [
        RunRecord("aaa1", "/p", "rai_build.yml", 1.0, State.DONE),
        RunRecord("aaa2", "/p", "rai_build.yml", 2.0, State.RUNNING),
        RunRecord("bbb3", "/p", "rai_build.yml", 3.0, State.DONE),
    ]
    for one in records:
        kept(tmp_path, one)
    Home(tmp_path).run("aaa1").tag.write_text("fast\n")
    return tmp_path


def kept(home: Path, run: RunRecord) -> None:
    paths = Home(home).run(run.id)
    paths.root.mkdir(parents=True)
    if run.state.final:
        paths.record.write_bytes(record.to_json(run))


def offered(line: str) -> list[str]:
    """Return what bash is offered at the end of a line."""
    words = line.split(" ")
    asked = {
        "_RAI_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    done = rai(env={**os.environ, **asked})
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rai sho", ["show"]),
        ("rai run --keep-going --dr", ["--dry-run"]),
        ("rai show aaa", ["aaa1", "aaa2"]),
        ("rai cancel ", ["aaa2"]),
        ("rai run --engine ", ["auto", "docker", "local", "bare"]),
    ],
)
def test_each_place_is_offered_what_belongs_there(line, expected):
    assert offered(line) == expected


def test_commands_of_the_project_are_offered_unless_a_shell_would_run_them(tmp_path):
    (tmp_path / "rai_build.yml").write_text(SPEC)

    assert offered(f"rai run -p {tmp_path} --only m") == ["make", "m2.1.py", "m2.1"]
    assert offered(f"rai run {tmp_path} --only comp") == ["compile"]


def test_no_more_than_fifty_are_offered(home):
    for n in range(200):
        kept(home, RunRecord(f"c{n:03}", "/p", "f", float(n)))

    assert len(suggestions.runs("c")) == 50
    assert suggestions.runs("")[:3] == ["latest", "fast", "aaa1"]


@pytest.mark.parametrize("line", ["rai show ", "rai run --only x"])
def test_an_error_says_nothing(line, home, monkeypatch):
    monkeypatch.chdir(home)
    (home / "runs").rename(home / "gone")
    (home / "runs").touch()

    assert offered(line) == []


@pytest.mark.programs
def test_bash_completes_by_the_script():
    script = rai("--show-completion", "bash").stdout
    call = "COMP_WORDS=(rai show aa); COMP_CWORD=2; _rai_completion"
    shown = f"{script}\n{call} {RAI}\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""

    done = run_program(["bash", "--norc", "-c", shown])

    assert done.stdout.split() == ["aaa1", "aaa2"], done.stderr


def test_the_script_is_installed_where_the_shell_looks(tmp_path):
    done = rai("--install-completion", "fish", env={"HOME": str(tmp_path)})

    assert done.returncode == 0, done.stderr
    assert (tmp_path / ".config/fish/completions/rai.fish").is_file()
    assert "not supported" in rai("--show-completion", "csh").stderr
