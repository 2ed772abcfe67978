"""The files that a command line has a profiler write, found by its words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.commandline.exports import claimed, exporting
from runner.core import ProfileFile

NAMES = (
    *("t.nvprof", "t.nvprof.31", "t.nvprof.31.1", "t-31.nvprof", "t-a-node7.nvprof"),
    *("t100.nvprof", "t1000.nvprof", "out/t.nvprof", "t.txt", "x y", "a.o", "m"),
    *("report1.nsys-rep", "report1.sqlite", "report.txt", "a.ncu-rep"),
    *("timeline.qdrep", "timeline.nsys-rep"),
)
FILES = {name: size for size, name in enumerate(NAMES)}
REPORT = ["report1.nsys-rep", "report1.sqlite"]
TIMELINE = ["timeline.qdrep", "timeline.nsys-rep"]


def found(line: str) -> list[str]:
    return [file.path for file in claimed([(0, line)], FILES).get(0, ())]


@pytest.mark.parametrize(
    ("line", "paths"),
    [
        ("nvprof -o t.nvprof python m3.1.py", [*NAMES[:3]]),
        ("nvprof -f -o ./t.txt python m3.1.py 100", ["t.txt"]),
        ("nvprof -fo t.txt ./m", ["t.txt"]),
        ("nvprof -ot.txt ./m", ["t.txt"]),
        ("nvprof -sfo t.txt ./m", ["t.txt"]),
        ("nvprof -sfot.txt ./m", ["t.txt"]),
        ("nvprof -sfo=t.txt ./m", ["t.txt"]),
        ("nvprof -fs -o t.txt ./m", ["t.txt"]),
        ("nvprof -fu ms -o t.txt ./m", ["t.txt"]),
        ("nvprof -ums -o t.txt ./m", ["t.txt"]),
        ("nvprof -o m ./m3", ["m"]),
        ("nvprof -o 'x y' -f ./m", ["x y"]),
        ("nsys profile -tcuda -o timeline ./m", TIMELINE),
        ("nvprof --export-profile=t.txt ./m", ["t.txt"]),
        ("nvprof --cpu-profiling on --export-profile t.txt -- ./m", ["t.txt"]),
        ('nvprof --kernels "::forward:2" --analysis-metrics -o t.txt ./m', ["t.txt"]),
        ("nvprof -u ms --csv -o t-%p.nvprof ./m", ["t-31.nvprof"]),
        ("nvprof -o t-%q{KIND}-%h.nvprof ./m", ["t-a-node7.nvprof"]),
        ("/usr/bin/time -f %e nvprof -o t.txt ./m", ["t.txt"]),
        ("nvprof -o t.txt /usr/bin/time ./m", ["t.txt"]),
        ("nice -n20 env A=1 /usr/local/cuda/bin/nvprof -o t.txt ./m", ["t.txt"]),
        ("nvprof -o 'x y' ./m", ["x y"]),
        ("nvprof -o /build/out/t.nvprof ./m", ["out/t.nvprof"]),
        ("cd /src && nvprof -o /build/t.txt ./m", ["t.txt"]),
        ("mkdir -p out; cd out && nvprof -o t.nvprof ./m", ["out/t.nvprof"]),
        ("nvprof -o $RAI_BUILD_DIR/t.txt ./m > log 2>&1", ["t.txt"]),
        ('/bin/bash -c "cd out; nvprof -o t.nvprof ./m"', ["out/t.nvprof"]),
        ("bash -lc 'sh -c \"nvprof -o t.txt ./m\"'", ["t.txt"]),
        ("nvprof > log -o t.txt ./m", ["t.txt"]),
        ("for n in 1 2; do nvprof -o t$n.nvprof ./m $n; done", [*NAMES[:7]]),
        ("make\nnvprof -o t-$(hostname).txt ./m\nnvprof -o t.txt ./m", ["t.txt"]),
        ("nsys profile --stats=true ./m3", REPORT),
        ("nsys profile -t cuda -o timeline ./m", TIMELINE),
        ("nsys profile --force-overwrite true -o timeline.qdrep ./m", TIMELINE),
        ("ncu --set full -f -o a ./m", ["a.ncu-rep"]),
        ("ncu --export a.ncu-rep ./m", ["a.ncu-rep"]),
    ],
)
def test_a_lines_profiles_are_found_in_the_build_folder(line, paths):
    assert found(line) == paths
    assert exporting(line)


@pytest.mark.parametrize(
    "line",
    [
        "nvprof ./m -o t.txt",
        "nvprof python train.py --o t.txt",
        "nvprof g++ -c a.cpp -o a.o",
        "nvprof -- ./m -o t.txt",
        "nvprof -o ../t.txt ./m",
        "nvprof -o /src/t.txt ./m",
        "cd /src && nvprof -o t.txt ./m",
        "nvprof -o $NAME ./m",
        "nvprof -o %p ./m",
        "nvprof -o m%p ./m",
        "nvprof -o $HOME/m ./m",
        "nvprof -sfu o t.txt ./m",
        "nvprof -o",
        "nvprof -i t.txt",
        "nsys stats -o timeline report1.nsys-rep",
        "nsys",
        "ncu ./m",
        "gcc -o m m.c",
        "bash nvprof.sh -o t.txt",
        "bash -c",
        "bash -c 'echo \"'",
        "cd",
    ],
)
def test_no_other_file_is_taken_for_a_profile(line):
    assert found(line) == []


def test_a_file_is_the_profile_of_the_last_that_names_it():
    lines = [(3, "nvprof -o t.txt ./m"), (1, "nvprof -o t.txt -f ./m"), (2, "make")]

    assert claimed(lines, FILES) == {
        1: (ProfileFile("nvprof", "t.txt", FILES["t.txt"]),)
    }


def test_a_name_that_could_steer_a_terminal_is_not_told():
    assert claimed([(0, "ncu -o a-$N ./m")], {"a-\x1b[2J.ncu-rep": 1}) == {}


@given(st.text("nvprof -o't\"$%{}/\\\n;|&()<>#`cbash", max_size=60))
def test_no_line_is_too_odd_to_be_read(line):
    claimed([(0, f"nvprof -o {line}"), (1, line)], FILES)
