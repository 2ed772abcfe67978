"""plan.json, which a team wrote: bounds, and every problem with its path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runner.core import plan_reader
from tests.runner.submission import sample


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
        ("kernel", "a b", "kernel is"),
        ("kernel", "a\n", "kernel is"),
        ("kernel", 'conv"; rm', "kernel is"),
        ("kernel", "k" * 129, "kernel is"),
        ("kernel", None, "kernel is null"),
        ("grid", [1, 65_536, 1], "grid[1] is 65536"),
        ("grid", [2**31, 1, 1], "grid[0] is 2147483648"),
        ("grid", [0, 1, 1], "grid[0] is 0"),
        ("grid", [1, 1], "grid is a list of 2"),
        ("grid", [True, 1, 1], "grid[0] is true"),
        ("block", [1025, 1, 1], "block[0] is 1025"),
        ("block", [1, 1, 65], "block[2] is 65"),
        ("numbers", [2**31], "numbers[0] is 2147483648"),
        ("numbers", [1.5], "numbers[0] is 1.5"),
        ("numbers", ["1"], 'numbers[0] is "1"'),
        ("numbers", [0] * 65, "numbers is a list of 65"),
        ("shared_bytes", -1, "shared_bytes is -1"),
        ("buffers", ["y"] * 33, "buffers is a list of 33"),
        ("cluster", 2, 'unknown key "cluster"'),
    ],
)
def test_a_launch_out_of_bounds_is_refused_with_its_path(plan, key, value, says):
    first_launch(plan)[key] = value
    (line,) = told(plan)
    assert WHERE in line and says in line


@pytest.mark.parametrize(
    ("unit", "says"),
    [
        ({"file": "../naive.cu"}, "unit.file"),
        ({"file": "/etc/passwd.cu"}, "unit.file"),
        ({"file": "naive.py"}, "unit.file"),
        ({"file": "-o.cu"}, "unit.file"),
        ({"file": "naive.cu\n"}, "unit.file"),
        ({"target": "sm_90 -o x"}, "unit.target"),
        ({"target": "compute_90"}, "unit.target"),
        ({"defines": {"A=1 -include /etc/passwd": 1}}, "unit.defines"),
        ({"defines": {"A": "1 -include x"}}, "unit.defines"),
        ({"defines": {"A": 2**63}}, "unit.defines"),
        ({"defines": {f"A{n}": 1 for n in range(65)}}, "unit.defines"),
    ],
)
def test_a_unit_that_would_say_more_to_the_compiler_is_refused(plan, unit, says):
    one = plan["milestones"]["final"][0]["plans"][0]["convolutions"][0]
    one["unit"] |= unit
    (line,) = told(plan)
    assert says in line


def test_sizes_are_bounded(plan):
    launch = first_launch(plan)
    one = plan["milestones"]["final"][0]["plans"][0]["convolutions"][0]
    one["launches"] = [launch] * 65
    one["scratch"] = {"huge": 200 << 30}
    plan["milestones"]["m3"] = [sample.entry()] * 17
    plan["sources"] = {f"project/cuda/{n}.cu": "0" * 64 for n in range(2001)}
    assert len(told(plan)) == 4


def test_all_problems_are_told_at_once_up_to_a_number_of_them(plan):
    del plan["edition"]
    plan["registry"] = "abc"
    plan["extra"] = 1
    first_launch(plan)["grid"] = [0, 0, 0]
    lines = told(plan)
    assert len(lines) == 6
    first_launch(plan)["numbers"] = ["x"] * 60
    lines = told(plan)
    assert len(lines) == plan_reader.MOST_PROBLEMS + 1 and "more" in lines[-1]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not JSON"),
        (b"{", "plan.json:1:2"),
        (b"\xff", "utf-8"),
        (b'{"a": 1, "a": 2}', "occurs twice"),
        (b"[" * 200_000, "nested"),
        (b'{"a":' * 100_000, "nested"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": Infinity}', "Infinity"),
        (b"1" * 5000, "plan.json"),
        (b" " * (1 << 20) + b"{}", "larger"),
        (b'"' + b'\\"' * 500_000, "not JSON"),
        (b"3", "the file is 3"),
    ],
)
def test_hostile_json_is_refused_without_much_work(data, says):
    assert any(says in line for line in told(data))


def test_of_a_file_full_of_mistakes_only_some_are_told(plan):
    launch = first_launch(plan)
    launch["numbers"] = ["x"] * 60
    one = plan["milestones"]["final"][0]["plans"][0]["convolutions"][0]
    one["launches"] = [launch] * 64
    assert len(told(plan)) == plan_reader.MOST_PROBLEMS + 1
