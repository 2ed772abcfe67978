"""A plan.json that a person edits: what it may leave out, and arithmetic in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from runner.core import plan_reader
from runner.core.measurement import JudgeJob
from runner.core.milestone import Milestone
from runner.judge import arithmetic
from runner.spec import milestones
from runner.submit import files, planning
from tests.kit import sample_submission as sample

LAUNCH: dict[str, Any] = {
    "kernel": "conv_naive",
    "grid": ["M", "ceil(H_out * W_out / THREADS)", "B"],
    "block": ["THREADS", 1, 1],
    "buffers": ["y", "x", "k"],
    "numbers": ["C", "H", "W", "K"],
}


def entry(variant: str = "mine", **launch: Any) -> dict[str, Any]:
    unit = {"file": "naive.cu", "defines": {"THREADS": sample.THREADS}}
    one = {"unit": unit, "launches": [LAUNCH | launch], "comment": ["for", "people"]}
    return {"variant": variant, "class": "fp32", "convolutions": [one], "comment": "-"}


def by_hand(**several: list[dict[str, Any]]) -> dict[str, Any]:
    return {"version": 1, "milestones": several}


def written(folder: Path, values: dict[str, Any]) -> Path:
    folder.mkdir()
    (folder / "naive.cu").write_text(sample.KERNEL)
    (folder / "report.pdf").write_bytes(sample.report())
    sample.write_plan(folder, values)
    return folder


def planned(folder: Path, name: str = "m3") -> tuple[JudgeJob | None, list[str]]:
    milestone = files.placed(folder, milestones.find(name))
    found = files.look(folder, milestone)
    told = [str(problem) for problem in found.problems]
    if found.plan is None:
        return None, told
    job, problems = planning.job(milestone, "sm_90", "", found.plan, found.digests)
    assert (job is None) == bool(problems)
    return job, [*told, *map(str, problems)]


def refused(folder: Path, name: str = "m3", **several: Any) -> list[str]:
    job, lines = planned(written(folder, by_hand(**several)), name)
    assert job is None
    return lines


def test_a_plan_by_hand_is_the_job_of_one_that_says_all(tmp_path):
    spelled_out = sample.write(tmp_path / "long", m3=[sample.entry("mine")])
    values = json.loads((spelled_out / "plan.json").read_text())
    for each in values["milestones"]["m3"][0]["plans"]:
        for one in each["convolutions"]:
            one["unit"]["defines"] = {"THREADS": sample.THREADS}
    sample.write_plan(spelled_out, values)

    job, problems = planned(written(tmp_path / "short", by_hand(m3=[entry()])))

    assert problems == []
    assert (job, []) == planned(spelled_out)


def test_without_sources_all_of_the_teams_files_are_sent(tmp_path):
    folder = written(tmp_path / "p", by_hand(m3=[entry()]))
    (folder / "more.cuh").touch()
    (folder / "notes.txt").touch()
    (folder / "below").mkdir()
    (folder / "below/old.cu").touch()
    found = files.look(folder, files.placed(folder, milestones.find("m3")))
    assert [file.path for file in found.team] == ["more.cuh", "naive.cu"]


@pytest.mark.parametrize(
    ("name", "there", "below"),
    [
        ("m2", (), "project/cpp"),
        ("m2", ("convolution.cpp",), ""),
        ("m3", ("plan.json",), ""),
        ("m3", ("a.cu",), ""),
        ("m3", ("plan.json", "project/cuda/"), "project/cuda"),
        ("m1", ("plan.json",), ""),
    ],
)
def test_files_lie_at_the_top_where_the_milestones_folder_is_not(
    tmp_path, name, there, below
):
    for path in there:
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir() if path.endswith("/") else place.touch()
    assert files.placed(tmp_path, milestones.find(name)).team.below == below


@pytest.mark.parametrize("name", ["link.cu", "id_rsa.cu"])
def test_a_file_at_the_top_is_no_link_and_no_secret(tmp_path, name):
    folder = written(tmp_path / "p", by_hand(m3=[entry()]))
    (folder / name).symlink_to("naive.cu")
    _, lines = planned(folder)
    assert any(name in line for line in lines)


SIZES = {"W_out": 66, "M": 12, "TILE": 16}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ceil(W_out / TILE) * M", 60),
        ("ceil((W_out + 1) * 2 / TILE)", 9),
        ("W_out // TILE - -M", 16),
        (" max(min(W_out, TILE, 3), M - (TILE + 1)) ", 3),
        ("(" * 49 + "M" + ")" * 49, 12),
    ],
)
def test_a_number_may_be_arithmetic(text, value):
    assert arithmetic.evaluate(text, SIZES) == value


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("TIEL", "no name TIEL: there are W_out, M, TILE"),
        ("W_out / TILE", "`a // b` rounds down"),
        ("ceil(M / 0)", "divides by 0"),
        ("M // (TILE - 16)", "divides by 0"),
        ("*".join(["999999999999"] * 3), "64 bits"),
        ("9" * 100, "64 bits"),
        ("M + " * 26, "expected arithmetic"),
    ],
)
def test_arithmetic_without_a_value_says_why(text, says):
    with pytest.raises(ValueError, match=r".") as error:
        arithmetic.evaluate(text, SIZES)
    assert says in str(error.value)


ODD = """\
|2**3|M.real|M[0]|'a'|1.5|1e3|0x10|1_0|1if M else 2|lambda: 1|True|ceil(5)|\
ceil(a=1)|min(1)|min(*M, *M)|(M|M)|M %2|M := 1|exec(1, 2)|Ω|M\n+1\n|\
__import__("os")|M,M|007"""


@pytest.mark.parametrize("text", [*ODD.split("|"), "a" * 99 + "!", "/" * 99 + "!"])
def test_nothing_but_arithmetic_has_a_value(text):
    with pytest.raises(ValueError, match="expected arithmetic such as"):
        arithmetic.evaluate(text, SIZES)


WHERE = 'plan.json: milestones["m3"][0].convolutions[0].launches[0].'


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("grid", ["M", "B * B", "B"], ["grid[1] is 100000000 for conv1; expected a"]),
        ("grid", [1, "H - 33", 1], ["grid[1] is 0 for conv2; expected a whole number"]),
        ("block", ["TIEL", 1, 1], ['block[0] is "TIEL"; no name TIEL: there are B, M']),
        ("numbers", ["2 *"], ['numbers[0] is "2 *"; expected arithmetic such as']),
        ("shared_bytes", "-1", ["shared_bytes is -1 for conv1; expected a whole"]),
        ("grid", [1, 1, "MULTIPROCESSORS // 2"], ["grid[2] is 0 for conv1; expected"]),
        ("grid", [1, "B * MULTIPROCESSORS", 1], ["grid[1] is 10240000 for conv1; exp"]),
        ("numbers", ["MULTIPROCESSORS"], ["no name MULTIPROCESSORS: there are B, M"]),
    ],
)
def test_a_value_out_of_bounds_is_refused_with_its_path_and_layer(
    tmp_path, key, value, says
):
    lines = refused(tmp_path / "p", m3=[entry(**{key: value})])
    assert len(lines) in (1, 2)  # one for each layer, where they differ
    assert all(line.startswith(WHERE) for line in lines)
    assert all(any(part in line for line in lines) for part in says)


def test_a_grid_may_depend_on_the_gpu_that_the_judge_has(tmp_path):
    grid = ["min(B, 2 * MULTIPROCESSORS)", "THREADS", 1]
    job, problems = planned(written(tmp_path / "p", by_hand(m3=[entry(grid=grid)])))

    assert problems == [] and job is not None
    one, _ = job.entries[0].convolutions
    (launch,) = one.launches
    assert launch.grid == (grid[0], sample.THREADS, 1)
    known = {"MULTIPROCESSORS": 114, **one.names}
    assert arithmetic.evaluate(str(launch.grid[0]), known) == 228


def test_a_plan_by_hand_is_mended_by_hand(tmp_path):
    lines = refused(tmp_path / "p", m3=[entry(), entry("other", block=[1, 1, 1])])
    assert lines == [
        "plan.json has 2 entries of m3; it takes exactly 1; edit plan.json"
    ]
    gone = entry()
    gone["convolutions"][0]["unit"]["file"] = "gone.cu"
    lines = refused(tmp_path / "q", m3=[gone])
    assert all("gone.cu is not there; edit plan.json" in line for line in lines)


def test_an_entry_has_plans_or_convolutions(tmp_path):
    both = entry() | {"plans": sample.entry()["plans"]}
    (line,) = refused(tmp_path / "p", m3=[both])
    assert "has both or none of `plans` and `convolutions`" in line


def test_names_of_milestones_that_differ_by_case_are_refused():
    data = json.dumps(by_hand(final=[], FINAL=[])).encode()
    plan, (problem,) = plan_reader.read(data)
    assert plan is None
    assert 'has "final" and "FINAL", which are one name' in str(problem)


def test_the_same_kernels_under_three_names_are_no_three_optimisations(tmp_path):
    names = ("one", "two", "three")
    lines = refused(tmp_path / "p", "m4", m4=[entry(name) for name in names])
    assert len(lines) == 2
    assert all("launches the same kernels as one" in line for line in lines)

    copied = written(tmp_path / "q", by_hand(m4=[entry(name) for name in names]))
    values = json.loads((copied / "plan.json").read_text())
    for each in values["milestones"]["m4"]:
        each["convolutions"][0]["unit"]["file"] = f"{each['variant']}.cu"
        (copied / f"{each['variant']}.cu").write_text(sample.KERNEL)
    sample.write_plan(copied, values)
    assert len(planned(copied, "m4")[1]) == 2

    for each in names:
        (copied / f"{each}.cu").write_text(f"// {each}\n{sample.KERNEL}")
    job, lines = planned(copied, "m4")
    assert job is not None and lines == []


def test_a_class_of_another_milestone_is_told_beside_what_else_is_wrong(tmp_path):
    wrong = entry(block=["TIEL", 1, 1]) | {"class": "half"}
    lines = refused(tmp_path / "p", m3=[wrong])
    assert len(lines) == 2 and "takes fp32" in lines[0]


def site(milestone: Milestone) -> Milestone:
    return replace(milestone, layers=milestone.layers[:1])


def test_one_convolution_without_a_name_serves_every_layer(tmp_path):
    folder = written(tmp_path / "p", by_hand(m3=[entry()]))
    milestone = site(files.placed(folder, milestones.find("m3")))
    found = files.look(folder, milestone)
    job, _ = planning.job(milestone, "sm_120", "", found.plan, found.digests)
    assert job is not None
    (one,) = job.entries[0].convolutions
    assert (one.name, one.launches[0].grid) == ("conv1", (12, 18, 10_000))
    assert job.units[0].target == "sm_120"
