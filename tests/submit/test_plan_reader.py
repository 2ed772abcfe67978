"""plan.json, which a team wrote: bounds, and every problem with its path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runner.core import plan_reader
from tests.kit import sample_submission as sample


@pytest.fixture
def plan(tmp_path: Path) -> dict[str, Any]:
    return sample.plan(sample.write(tmp_path / "project"))


def told(value: object) -> list[str]:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    found, problems = plan_reader.read(data)
    assert (found is None) == bool(problems)
    return [str(problem) for problem in problems]


def first_launch(plan: dict[str, Any]) -> dict[str, Any]:
    return plan["milestones"]["final"][0]["plans"][0]["convolutions"][0]["launches"][0]


def test_a_plan_is_read(plan):
    found, problems = plan_reader.read(json.dumps(plan).encode())
    assert problems == () and found is not None
    assert [entry.variant for entry in found.milestones["m4"]] == [
        *("naive", "plain", "simple")
    ]
    entry = found.milestones["final"][0]
    assert entry.serving("sm_86") and not entry.serving("sm_89")


WHERE = 'milestones["final"][0].plans[0].convolutions[0].launches[0]'


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("kernel", "k" * 129, "kernel is"),
        ("kernel", None, "kernel is null"),
        ("grid", [2**31, 1, 1], "grid[0] is 2147483648"),
        ("grid", [1, 1], "grid is a list of 2"),
        ("block", [1, 1, 65], "block[2] is 65"),
        ("numbers", [1.5], "numbers[0] is 1.5"),
        ("numbers", [0] * 65, "numbers is a list of 65"),
        ("buffers", ["y"] * 33, "buffers is a list of 33"),
        ("cluster", 2, 'unknown key "cluster"'),
    ],
)
def test_a_launch_out_of_bounds_is_refused_with_its_path(plan, key, value, says):
    first_launch(plan)[key] = value
    (line,) = told(plan)
    assert WHERE in line and says in line


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"{", "plan.json:1:2"),
        (b"3", "the file is 3"),
        (bytes(1 << 21), "larger"),
    ],
)
def test_what_is_no_plan_is_told_with_its_place(data, says):
    assert any(says in line for line in told(data))


def test_sizes_are_bounded(plan):
    launch = first_launch(plan)
    one = plan["milestones"]["final"][0]["plans"][0]["convolutions"][0]
    one["launches"] = [launch] * 65
    one["scratch"] = {"huge": 200 << 30}
    plan["milestones"]["m3"] = [sample.entry()] * 17
    plan["sources"] = {f"project/cuda/{n}.cu": "0" * 64 for n in range(2001)}
    assert len(told(plan)) == 4


def test_all_problems_are_told_at_once_up_to_a_number_of_them(plan):
    del plan["milestones"]["m3"][0]["class"]
    plan["registry"] = "abc"
    plan["extra"] = 1
    first_launch(plan)["grid"] = [0, 0, 0]
    lines = told(plan)
    assert len(lines) == 6
    first_launch(plan)["numbers"] = [None] * 60
    lines = told(plan)
    assert len(lines) == plan_reader.MOST_PROBLEMS + 1 and "more" in lines[-1]


def test_of_what_is_wrong_a_thousand_times_no_more_is_looked_for(plan, monkeypatch):
    looked, problem = [], plan_reader._problem
    monkeypatch.setattr(
        plan_reader, "_problem", lambda *its: looked.append(its) or problem(*its)
    )
    plan["milestones"]["final"] = [0] * 1000

    assert told(plan)[-1] == "plan.json: there are more"
    assert len(looked) < 100
