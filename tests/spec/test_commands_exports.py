"""The files that profilers left in the build folder, and whose they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core import ProfileFile
from runner.spec.commandline import claimed, tools

NVPROF = ("t.nvprof", "t.nvprof.31", "out/t.nvprof.31.1", "t.nvvp", "t.prof")
NSYS = ("report1.nsys-rep", "report1.qdrep", "report1.sqlite")
NCU = ("a.ncu-rep", "a.nsight-cuprof-report")
OTHERS = ("t.txt", "x y", "a.o", "m", "report.csv", "t.31", ".nvprof", "a.nvprof/b")
FILES = {name: size for size, name in enumerate((*NVPROF, *NSYS, *NCU, *OTHERS))}


def found(line: str) -> list[str]:
    return [file.path for file in claimed([(0, line)], FILES).get(0, ())]


@pytest.mark.parametrize(
    ("line", "paths"),
    [
        ("nvprof -o t.nvprof python m3.1.py", [*NVPROF, "a.ncu-rep"]),
        ("/usr/local/cuda/bin/nvprof -fo t.nvprof ./m", [*NVPROF, "a.ncu-rep"]),
        ('bash -c "cd out; nvprof -o t-%p.nvprof ./m"', [*NVPROF, "a.ncu-rep"]),
        ("/usr/bin/time nsys profile -o $NAME ./m", [*NSYS]),
        ("ncu --set full -f -o a ./m", [*NCU]),
        ("nv-nsight-cu-cli -o a ./m", [*NCU]),
    ],
)
def test_a_profilers_files_are_known_by_their_suffixes(line, paths):
    assert found(line) == paths
    assert tools(line)


@pytest.mark.parametrize(
    "line",
    [
        "make",
        "./ncu-like -o a",
        "nsys stats report1.nsys-rep",
        "nvprof -i t.nvprof",
        "ncu --import a.ncu-rep --page raw",
    ],
)
def test_a_command_that_starts_no_profiler_has_no_profiles(line):
    assert found(line) == []
    assert not tools(line)


def test_a_file_belongs_to_the_last_command_that_names_it():
    lines = [
        (3, "nvprof -o t.nvprof ./m"),
        (1, "nvprof -o /build/t.nvprof -f ./m"),
        (2, "nvprof -o other.nvprof ./m"),
        (4, "nsys profile -o t ./m"),
    ]

    assert claimed(lines, {"t.nvprof": 7, "t.nvprof.31": 8}) == {
        1: (
            ProfileFile("nvprof", "t.nvprof", 7),
            ProfileFile("nvprof", "t.nvprof.31", 8),
        )
    }


def test_a_file_that_no_command_names_belongs_to_the_last_that_starts_its_profiler():
    lines = [(0, "nvprof -o t.nvprof ./m"), (1, "ncu -o $A ./m"), (2, "ncu -o $B ./m")]

    assert claimed(lines, {"run-7.ncu-rep": 1}) == {
        2: (ProfileFile("ncu", "run-7.ncu-rep", 1),)
    }


def test_a_name_that_could_steer_a_terminal_is_not_told():
    assert claimed([(0, "ncu -o a-$N ./m")], {"a-\x1b[2J.ncu-rep": 1}) == {}


@given(st.text("nvprof -o't\"$%{}/\\\n;|&()<>#`cbash", max_size=60))
def test_no_line_is_too_odd_to_be_read(line):
    claimed([(0, f"nvprof -o {line}"), (1, line)], FILES)
