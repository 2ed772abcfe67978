"""`rai submit`, as a user types it: what is said, and the exit status."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from runner.core.measurement import to_json
from tests.cli.test_cli import rai
from tests.kit import sample_submission as sample
from tests.kit.needs import ROOT
from tests.submit.test_standings import measured

CPP = "project/cpp/convolution.cpp"
END = "        other.join();\n    }\n"
"""The end of the project's convolution: the threads have written y."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = sample.write(tmp_path / "team")
    (folder / CPP).parent.mkdir()
    (folder / CPP).write_bytes((ROOT / CPP).read_bytes())
    return folder


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAI_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_all_problems_are_said_before_anything_is_made(project, home):
    (project / "project/kernels.py").write_text("KERNELS = ()\n")

    done = rai("submit", "FINAL", "-p", project)

    assert done.returncode == 2 and done.stdout == ""
    assert "run `python project/plan.py`" in done.stderr
    assert not home.exists()


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("submit", "m9"), 2, "m9"),
        (("submit", "m2", "--engine", "bare"), 9, "`--engine docker` or `--engine lo"),
        (("submit", "m3", "--gpus", "2"), 2, "measured on one GPU"),
    ],
)
def test_what_cannot_be_judged_here_is_refused(project, home, words, status, said):
    done = rai(*words, "-p", project)

    assert done.returncode == status and said in done.stderr
    assert "Traceback" not in done.stderr and not home.exists()


def test_gradescope_gets_the_problems_of_a_project_that_is_refused(project, tmp_path):
    (project / "project/kernels.py").write_text("KERNELS = ()\n")
    file = tmp_path / "results.json"

    done = rai("submit", "final", "-p", project, "--gradescope", file)

    found = json.loads(file.read_text())
    assert done.returncode == 2 and found["score"] == 0
    assert "run `python project/plan.py`" in found["output"]
    done = rai("submit", "final", "-p", project, "--gradescope", tmp_path)
    assert done.returncode == 2 and "it is a folder" in done.stderr


def test_without_a_name_the_milestones_are_listed_with_their_deadlines(tmp_path, home):
    text = (ROOT / "runner/spec/milestones/m2.yml").read_text()
    (tmp_path / "site").mkdir()
    due = "deadline: 2026-01-02 23:59 UTC\n"
    (tmp_path / "site/m2.yml").write_text(text + due)

    done = rai("submit", env={**os.environ, "RAI_MILESTONES": str(tmp_path / "site")})

    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[0].split() == [
        "milestone",
        "title",
        "deadline",
    ]
    assert re.search(r"m2 .*  2026-01-0[123] .* \(closed\)", done.stdout)
    assert len(lines) == 6 and not home.exists()


@pytest.mark.local
def test_without_a_gpu_two_lines_say_what_is_missing_and_what_to_do(project, home):
    for words in (("submit", "m3"), ("--submit=M3",)):
        done = rai("-p", project, *words, "--gpus", "GPU-00000000")

        assert done.returncode == 11 and len(done.stderr.splitlines()) == 2
        assert "m3 is measured on a GPU" in done.stderr
        assert "rai doctor" in done.stderr
    assert not home.exists()


def test_the_ranking_is_made_of_what_the_runs_folders_hold(home):
    folder = home / "runs/0123456789"
    folder.mkdir(parents=True)
    found = measured(0.7128)
    (folder / "measurement.json").write_bytes(to_json(found))
    assert found.entries[0].interval
    low, high = found.entries[0].interval

    table = rai("ranking").stdout.splitlines()

    assert table[0] == "final, fp32, NVIDIA H200, docker"
    assert f"0.7128  {low:.4f} to {high:.4f}  v0.7128" in table[2]
    (entry,) = json.loads(rai("ranking", "FINAL", "--json").stdout)
    assert entry["ratio"] == 0.7128 and entry["run"] == "0123456789"


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ((), 0, "No accepted submission on this machine; `rai submit` makes one."),
        (("m3",), 0, "No accepted submission to m3 on this machine"),
        (("m1",), 0, "its outcome is what your program printed"),
        (("m9",), 2, "no milestone 'm9'"),
    ],
)
def test_an_empty_ranking_says_why(words, status, said):
    done = rai("ranking", *words)

    assert done.returncode == status and said in done.stdout + done.stderr


@pytest.mark.local
@pytest.mark.cpp
@pytest.mark.slow
def test_a_right_convolution_is_correct_and_its_runs_are_kept(project):
    done = rai("submit", "m2", "-p", project, "--engine", "local")

    assert done.returncode == 0, done.stderr
    assert re.search(r"convolution +correct", done.stdout)
    assert done.stderr.splitlines()[-1].startswith("✱ Submission to m2: correct: ")
    found = rai("ranking", "M2").stdout
    assert re.search(r"m2, fp32, local\n.*\nconvolution .*[0-9a-f]{10}", found)
    assert "(m2: check)" not in (shown := rai("show", "latest").stdout)
    assert re.search(r"part of +m2: check", shown)
    assert re.search(r"check run +[0-9a-f]{10}", shown)


@pytest.mark.local
@pytest.mark.cpp
@pytest.mark.slow
def test_the_first_wrong_number_is_named_and_json_has_the_whole(project):
    text = (ROOT / CPP).read_text()
    assert END in text
    (project / CPP).write_text(text.replace(END, f"{END}    y[5] += 1;\n"))

    words = ("submit", "m2", "-p", project, "--rehearse", "--engine", "local")
    done = rai(*words, "--json")

    assert done.returncode == 4, done.stderr
    found = json.loads(done.stdout)
    assert found["gpu"] is None and found["host"]["ranked"] is False
    assert found["entries"][0]["wrong"]["column"] == 5
    assert "not correct: " in done.stderr and "Traceback" not in done.stderr


@pytest.mark.local
@pytest.mark.cpp
def test_code_that_does_not_compile_is_shown_with_its_line(project, few_images):
    (project / CPP).write_text("int x = y;\n")

    done = rai("submit", "m2", "-p", project, "--engine", "local")

    assert done.returncode == 1
    assert f"{CPP}:1:9: error:" in done.stderr
    assert f"Submission to m2 ended: compile: {CPP}: " in done.stderr
