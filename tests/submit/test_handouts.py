"""What `rai init --milestone` writes runs at once; filled in, it is a submission."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from runner.core import measurement
from runner.core.errors import UsageError
from runner.core.milestone import EntryCount, LayerShape, Milestone, Shape
from runner.spec import milestones
from runner.submit import files, handouts, planning
from tests.exploits import standin
from tests.kit.handouts import SOLUTIONS, fill_in
from tests.kit.program import rai

KERNELS = {
    "m3": ("conv.cu",),
    "m4": ("constant.cu", "registers.cu", "tiled.cu"),
    "final": ("conv.cu",),
}
ALL = {"m2": ("convolution.cpp",)} | KERNELS


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAI_HOME", str(tmp_path / "home"))


def run(folder: Path) -> tuple[int, str]:
    done = rai("run", "-q", "-p", folder, "--engine", "local", "--gpus", "0")
    return done.returncode, done.stdout + done.stderr


def fewer_images(folder: Path) -> None:
    """Let its check compute few images, each as all."""
    check = folder / "check.py"
    few = re.sub("(?m)^FEW = .*", "FEW = 2", check.read_text())
    check.write_text(re.sub("(?m)^IMAGES = .*", "IMAGES = 3", few))


@pytest.mark.programs
@pytest.mark.lengthy
@pytest.mark.local
@pytest.mark.cpp
@pytest.mark.parametrize(
    ("name", "sources"),
    [
        pytest.param(*one, marks=pytest.mark.slow if one[0] == "final" else ())
        for one in ALL.items()  # final's is checked as m3's
    ],
    ids=ALL,
)
def test_a_handout_is_a_wrong_answer_until_it_is_filled_in(tmp_path, name, sources):
    folder = tmp_path / "mine"
    done = rai("init", "--milestone", name.upper(), folder)
    assert done.returncode == 0 and "rai run -p" in done.stderr + done.stdout
    assert len([*folder.iterdir()]) <= 8
    assert {path.name for path in folder.iterdir()} >= {*sources, "README.md"}

    fewer_images(folder)
    status, said = run(folder)
    assert status == 4 and "y[0][0][0][0], was not written" in said, said

    fill_in(folder)
    status, said = run(folder)
    assert status == 0, said
    assert said.count("Correctness: 1 Model: ") == len(sources)


WRONG = {
    "the next pixel": ("w + q)", "w + q + 1)", 4, "The first, y[0][0][0][0], is "),
    "a row left out": ("h >= H_out", "h > H_out - 2", 4, "][65][0], was not written"),
    "before y": ("y4d(b, m, h, w) = sum", "y[-1] = sum", 1, "before or after y"),
    "far outside": ("(b, c, h + p", "(b << 28, c, h + p", 1, "signal 11"),
    "C++ linkage": ('extern "C" ', "", 1, "linkage"),
    "an unknown function": ("float sum = 0", "float sum = clock64()", 1, "clock64"),
    "two barriers": (
        "float sum = 0",
        "if (w < 9)\n__syncthreads();\nelse\n__syncthreads();\nfloat sum = 0",
        1,
        "wait at the __syncthreads of line",
    ),
    "shared memory": (
        "float sum = 0",
        "extern __shared__ float all[]; all[w] = 1; float sum = 0",
        1,
        "shared_bytes",
    ),
}


@pytest.mark.programs
@pytest.mark.lengthy
@pytest.mark.local
@pytest.mark.cpp
@pytest.mark.parametrize("case", WRONG)
def test_the_check_says_what_is_wrong_with_a_kernel(tmp_path, case):
    handouts.write(tmp_path / "mine", milestones.find("m3"))
    fill_in(tmp_path / "mine")
    fewer_images(tmp_path / "mine")
    before, after, status, says = WRONG[case]
    source = tmp_path / "mine/conv.cu"
    assert before in source.read_text()
    source.write_text(source.read_text().replace(before, after))

    ended, said = run(tmp_path / "mine")

    assert ended == status and says in said, said


def planned(folder: Path, milestone: Milestone) -> dict[str, Any]:
    placed = files.placed(folder, milestone)
    found = files.look(folder, placed)
    assert [str(each) for each in found.problems if "report.pdf" not in str(each)] == []
    job, problems = planning.job(placed, "sm_90", "", found.plan, found.digests)
    assert problems == () and job is not None
    known = {file.name: file.sha256 for file in found.team}
    assert all(known[unit.file] for unit in job.units)
    return json.loads(measurement.job_json(job))


@pytest.mark.parametrize(("name", "sources"), KERNELS.items(), ids=KERNELS)
def test_a_handout_is_a_submission_of_its_sources(tmp_path, name, sources):
    handouts.write(tmp_path, milestones.find(name))
    job = planned(tmp_path, milestones.find(name))
    assert sorted(unit["file"] for unit in job["units"]) == [*sources]
    assert {unit["target"] for unit in job["units"]} == {"sm_90"}
    first, second = (one["launches"][0] for one in job["entries"][0]["convolutions"])
    assert (first["grid"], second["grid"]) == ([25, 12, 10000], [4, 24, 10000])


@pytest.mark.programs
@pytest.mark.lengthy
@pytest.mark.cpp
@pytest.mark.parametrize("name", ["m3", "m4"])
def test_the_judge_accepts_a_handout_that_is_filled_in(tmp_path, name):
    layers = tuple(LayerShape(n, Shape(**s)) for n, s in standin.SHAPES.items())
    milestone = replace(milestones.find(name), layers=layers)
    handouts.write(tmp_path, milestone)
    fill_in(tmp_path)
    job = planned(tmp_path, milestone) | {"rules": dict(standin.RULES)}
    units = [(tmp_path / unit["file"], unit["defines"]) for unit in job["units"]]

    measured = standin.measure(job, [standin.compiled(*unit) for unit in units])

    assert [entry["accepted"] for entry in measured["entries"]] == [True] * len(units)


def test_a_sites_milestone_has_its_own_sizes(tmp_path):
    layers = (LayerShape("only", Shape(B=7, M=2, C=3, H=9, W=8, K=4)),)
    site = replace(milestones.find("m4"), name="half", accuracy="half", layers=layers)
    texts = handouts.contents(site)
    assert '\nLAYERS = {"only": (2, 3, 9, 8, 4)}  # M, C' in texts["check.py"]
    assert "\nIMAGES = 7\n" in texts["check.py"]
    assert "| only | 2 | 3 | 9 | 8 | 4 |" in texts["README.md"]
    plan = json.loads(texts["plan.json"])["milestones"]["half"]
    assert {entry["class"] for entry in plan} == {"half"}
    assert plan[1]["convolutions"][0]["unit"]["defines"]["MOST"] == 2 * 3 * 16
    assert not any(re.search("@[A-Z]+@", text) for text in texts.values())


def test_a_milestone_without_a_handout_is_said():
    two = replace(milestones.find("m3"), entries=EntryCount(2, 2))
    for milestone, takes in (
        (milestones.find("m1"), "a project of"),
        (two, "exactly 2"),
    ):
        with pytest.raises(UsageError, match=f"no handout for .*, which takes {takes}"):
            handouts.contents(milestone)


@pytest.mark.programs
def test_an_unknown_milestone_lists_those_there_are(tmp_path):
    done = rai("init", "--milestone", "m9", tmp_path)
    assert done.returncode == 2 and "there are final, m1, m2, m3, m4" in done.stderr


def test_no_file_is_overwritten_nor_written_through_a_link(tmp_path):
    (tmp_path / "conv.cu").symlink_to("elsewhere")
    with pytest.raises(UsageError, match=r"has conv\.cu already"):
        handouts.write(tmp_path, milestones.find("m3"))
    assert [path.name for path in tmp_path.iterdir()] == ["conv.cu"]


def test_every_source_of_a_handout_has_a_solution_here():
    written = {
        name for each in ALL for name in handouts.contents(milestones.find(each))
    }
    assert {name for name in written if name.endswith((".cu", ".cpp"))} == {*SOLUTIONS}
