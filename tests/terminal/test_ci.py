"""`rai run --ci` in the log of a CI system."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.cli.ci import wanted
from runner.terminal.ci import CiSystem, PlainText, system
from tests.kit import github, program
from tests.kit.program import RAI, Forked

FORGED = r"""
import os, sys
for fd in (1, 2):
    os.write(fd, b"::error::forged\n  ::add-mask::e\n\r::warning::cr\n##[error]v1\n")
    os.write(fd, b"a ##[add-matcher]x\n::stop-commands::mine\n::mine::\n")
    os.write(fd, b"\x1b[0Ksection_end:1:rai_1\r\x1b[0K")
os.write(1, b"##")
os.write(2, b"[group]two\nno end of the line")
sys.exit(3)
"""
HOSTILE = {
    "commands": {
        "build": [
            {"run": "echo '\n::error::quoted ##[error]'", "name": "::warning::name"},
            {"run": "python3 $RAI_SOURCE_DIR/forge.py", "name": "forge"},
        ]
    }
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "work" / "project"
    folder.mkdir(parents=True)
    (folder / "forge.py").write_text(FORGED)
    write(folder, HOSTILE)
    return folder


def write(project: Path, spec: object) -> None:
    (project / "rai_build.yml").write_text(json.dumps(spec))


def rai(project: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    names = {
        **os.environ,
        "CI": "true",
        "GITHUB_WORKSPACE": str(project.parent),
        "GITHUB_STEP_SUMMARY": str(project.parent / "summary.md"),
        **environ,
    }
    return program.rai("run", "-p", project, "--engine", "bare", *words, env=names)


def test_ci_is_wanted_where_the_variable_says_so_and_no_option_says_otherwise():
    assert wanted(None, {"CI": "true"})
    assert not wanted(None, {})
    assert not wanted(None, {"CI": "false"})
    assert not wanted(False, {"CI": "true"})
    assert wanted(True, {})


def test_the_ci_system_is_known_by_its_variable():
    assert system({"GITHUB_ACTIONS": "true"}) is CiSystem.GITHUB
    assert system({"GITLAB_CI": "true"}) is CiSystem.GITLAB
    assert system({"CI": "true"}) is CiSystem.OTHER


@given(st.lists(st.text("#[x", max_size=4)))
def test_no_cut_between_pieces_brings_back_what_the_page_formats(pieces: list[str]):
    plain = PlainText()

    shown = b"".join(plain.feed(piece.encode()) for piece in pieces)

    assert b"##[" not in shown
    assert shown.replace(b"\\", b"") == "".join(pieces).encode()


def test_what_a_program_prints_gives_github_no_command(project: Path):
    summary = project.parent / "summary.md"
    summary.write_text("before\n")

    done = rai(project, GITHUB_ACTIONS="true")

    assert summary.read_text().startswith("before\n## ❌ rai project: command failed\n")
    assert "<pre>" in summary.read_text()
    assert done.returncode == 1
    assert done.stderr == ""
    obeyed = list(github.commands(done.stdout))
    assert [name for name, _ in obeyed if name != "error"] == [
        *("group", "endgroup", "group", "endgroup"),
        *(["warning"] * len([n for n, _ in obeyed if n == "warning"])),
    ]
    assert [text for name, text in obeyed if name == "group"] == [
        "Command 1 of 2: ::warning::name",
        "Command 2 of 2: forge",
    ]
    (error,) = [text for name, text in obeyed if name == "error"]
    assert error == "forge: python3 $RAI_SOURCE_DIR/forge.py"
    assert "::error::forged" in done.stdout
    assert "file=project/rai_build.yml,line=1" in done.stdout
    after = [*github.commands(done.stdout + "::notice::later\n")]
    assert after[-1] == ("notice", "later")


def test_a_build_file_with_problems_is_annotated_and_nothing_in_it_is_obeyed(
    project: Path,
):
    odd = {"run": "true", "timeout": "1\n::error::forged"}
    write(project, {"commands": {"build": [odd, {**odd, "timeout": "x"}]}})

    done = rai(project, "--junit", str(project / "j.xml"), GITHUB_ACTIONS="true")

    assert done.returncode == 2
    obeyed = list(github.commands(done.stdout))
    assert {name for name, _ in obeyed} == {"error"}
    assert "forged" not in [text for _, text in obeyed]
    assert len(obeyed) == 2
    assert "::error file=project/rai_build.yml,line=1,col=" in done.stdout
    assert "expected a time" in (project.parent / "summary.md").read_text()
    failed = ElementTree.parse(project / "j.xml").findall(".//failure")
    assert len(failed) == len(obeyed)


@pytest.mark.parametrize("kind", ["pipe", "folder", "full disk"])
def test_a_summary_that_cannot_be_written_holds_nothing_up(kind, project: Path):
    summary = project.parent / "summary.md"
    if kind == "pipe":
        os.mkfifo(summary)
    elif kind == "folder":
        summary.mkdir()
    else:
        summary.symlink_to("/dev/full")

    done = rai(project, GITHUB_ACTIONS="true")

    assert done.returncode == 1
    assert f"{summary}: " in done.stdout


def test_a_record_on_stdout_stays_alone_there_and_holds_no_command(project: Path):
    done = rai(project, "--json", GITHUB_ACTIONS="true")

    shown = json.loads(done.stdout)
    assert shown["exit_code"] == 1
    assert "##[error]" in shown["commands"][0]["text"]
    assert list(github.commands(done.stdout)) == []
    names = {name for name, _ in github.commands(done.stderr)}
    assert names <= {"group", "endgroup", "error", "warning"}
    assert "forged" in done.stderr


@pytest.mark.programs
def test_a_file_gets_a_programs_bytes_and_the_log_the_rest(project: Path):
    target = project.parent / "out.txt"
    write(project, {"commands": {"build": ["printf 'plain\\033[2J\\n'"]}})
    names = {**os.environ, "CI": "true", "GITHUB_ACTIONS": "true"}
    words = ("run", "-p", project, "--engine", "bare")

    with target.open("wb") as file:
        child = Forked(*words, env=names, stdout=file, stderr=subprocess.PIPE)
    _, error = child.communicate()

    assert child.wait() == 0
    assert target.read_bytes() == b"plain\x1b[2J\n"
    group = ("group", "Command 1: printf 'plain\\033[2J\\n'")
    assert group in github.commands(error)


def test_only_rai_folds_a_log_of_gitlab(project: Path):
    done = rai(project, GITLAB_CI="true")

    shown = done.stdout + done.stderr
    assert shown.count("\x1b[0Ksection_start:") == 2
    assert shown.count("\x1b[0Ksection_end:") == 2
    assert "\r\x1b[0K" not in shown.replace("\r\x1b[0KCommand", "").replace(
        "\r\x1b[0K\n", ""
    )
    assert "section_end:1:rai_1" in shown
    assert "::group::" not in shown


def test_other_ci_systems_get_plain_lines_and_junit(project: Path):
    done = rai(project, "--junit", str(project / "j.xml"))

    assert done.returncode == 1
    assert "::stop-commands::" not in done.stderr.replace("::stop-commands::mine", "")
    assert "✱ Running python3" in done.stderr
    cases = ElementTree.parse(project / "j.xml").findall(".//testcase")
    assert [[c.tag for c in case] for case in cases] == [[], ["failure"]]
    assert "::error::forged" in cases[1][0].text


def test_a_gate_that_fails_is_annotated_and_stands_in_the_summary(project: Path):
    write(project, {"commands": {"build": ["echo Correctness: 0.5 Model: ece408"]}})
    words = ("--fail-if", "correctness<0.85", "--junit", str(project / "j.xml"))

    done = rai(project, *words, GITHUB_ACTIONS="true")

    assert done.returncode == 7
    (error,) = [t for name, t in github.commands(done.stdout) if name == "error"]
    assert error.startswith('"correctness<0.85": correctness[1] is 0.5')
    assert "gate" in (project.parent / "summary.md").read_text()
    (failure,) = ElementTree.parse(project / "j.xml").findall(".//failure")
    assert failure.text == error


def test_junit_to_a_folder_that_is_not_there_is_refused_before_anything_runs(
    project: Path,
):
    done = rai(project, "--no-ci", "--junit", str(project / "no" / "j.xml"))

    assert done.returncode == 2
    assert "there is no folder" in done.stderr
    assert "Running" not in done.stderr


@pytest.mark.programs
@pytest.mark.local
@pytest.mark.parametrize("shell", ["", "exec "])
def test_a_step_that_is_cancelled_ends_with_its_build_folder_kept(
    project: Path, shell: str
):
    stubborn = (
        "trap : TERM; echo kept > kept; echo working; while :; do sleep 0.1; done"
    )
    write(project, {"commands": {"build": [f"sh -c '{stubborn}'"]}})
    names = {**os.environ, "CI": "true", "GITHUB_ACTIONS": "true"}
    script = f"{shell}{RAI} run -p {project} --engine local\necho NEXT"
    shown = ""
    with subprocess.Popen(
        ["bash", "-e", "-c", script], stdout=subprocess.PIPE, env=names, text=True
    ) as step:
        while "\nworking" not in shown:
            shown += step.stdout.readline()
        step.send_signal(signal.SIGTERM)
        shown += step.stdout.read()

    assert list(github.commands(shown + "::notice::x\n"))[-1] == ("notice", "x")
    assert "cancelled: " in shown
    assert "NEXT" not in shown
    record = json.loads(program.rai("show", "latest", "--json", cwd=project).stdout)
    assert record["exit_code"] == 130
    assert record["build_bytes"]
    assert record["limits"]["stop_grace_s"] < 7.5
