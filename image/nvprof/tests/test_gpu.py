"""nvprof on a GPU: its figures beside CUDA's events and PyTorch's profiler."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest

from runner.core.kernel_shapes import FILE, read
from runner.figures import analysis, traces
from tests.kit import needs
from tests.kit.program import run_program

pytestmark = pytest.mark.gpu

TESTS = Path(__file__).resolve().parent
TOP = TESTS.parents[2]
TIMES = 50  # launches of the program's kernel
NEAR = 0.02

TORCH = """
import json, sys, torch
from torch.profiler import profile, ProfilerActivity
x = torch.randn(2048, 2048, device="cuda")
def work():
    for _ in range(40):
        y = torch.relu(x @ x)
    torch.cuda.synchronize()
with torch.no_grad():
    work()
    if "watch" in sys.argv:
        with profile(activities=[ProfilerActivity.CUDA]) as watched:
            work()
        rows = watched.key_averages()
        print(json.dumps({r.key: [r.count, r.device_time_total] for r in rows}))
"""


@pytest.fixture(scope="session")
def nvprof(tmp_path_factory):
    """Install it as a user does; give the command."""
    needs.need("cpp")
    home = tmp_path_factory.mktemp("nvprof")
    argv = ["make", "-C", TOP / "image" / "nvprof", "install", f"PREFIX={home}"]
    made = run_program([*argv, f"BUILD={home}/build"])
    assert made.returncode == 0, made.stderr
    return home / "bin" / "nvprof"


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """Compile the program that is profiled."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("compiler: no nvcc")
    path = tmp_path_factory.mktemp("program") / "profiled"
    argv = [nvcc, "-arch=native", "-o", path, TESTS / "profiled.cu"]
    subprocess.run(argv, check=True, capture_output=True)
    return path


@pytest.fixture
def run(tmp_path):
    def run(*words, status=0):
        done = run_program(
            [str(word) for word in words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert done.returncode == status, done.stderr
        return done

    return run


def query(path, text):
    with closing(sqlite3.connect(path)) as file:
        return file.execute(text).fetchall()


def calls(said):
    """Read the summary's counts by name."""
    found = re.findall(r"% +\S+ +(\d+) +\S+ +\S+ +\S+  (.+)$", said, re.M)
    return {name: int(count) for count, name in found}


def launches(kernels, times=1):
    """Return how often each kernel is launched, by its name.

    Kernels of no variant are launched again for each of some number of variants.
    """
    counted = Counter()
    for one in kernels:
        counted[one.kernel] += one.launches * (1 if one.variant else times)
    return counted


def test_kernels_take_as_long_as_cudas_events_say(nvprof, program, run, tmp_path):
    done = run(nvprof, "-o", "a.nvprof", program)
    (row,) = query(
        tmp_path / "a.nvprof",
        "SELECT text, count(*), min(end - start) / 1e6 FROM kernel"
        " JOIN name ON name.id = kernel.name GROUP BY text",
    )
    assert row[:2] == ("void spin<int=2, float>(float*, long long)", TIMES)
    # Of all launches others may have had the GPU in between, of the shortest not.
    _, shortest_ms = done.stdout.split()
    assert row[2] == pytest.approx(float(shortest_ms), rel=NEAR)


@pytest.mark.parametrize(
    "words", [["m3.1.py", "100"], ["m4.1.py", "1000"], ["final.py", "1000"]]
)
def test_each_kernel_of_a_milestone_is_one_that_the_milestone_describes(
    words, nvprof, run, tmp_path, monkeypatch
):
    monkeypatch.setenv("RAI_BUILD_DIR", str(tmp_path))
    script, *arguments = words
    command = [sys.executable, TOP / "project" / script, *arguments]
    done = run(nvprof, "-o", "a.nvprof", *command)
    assert "Op Time: " in done.stdout
    shapes, problems = read((tmp_path / FILE).read_bytes())
    trace = traces.summary(tmp_path / "a.nvprof", "a.nvprof")
    found = analysis.kernels(shapes, [trace])

    assert problems == ()
    assert [one.kernel for one in found if one.bytes is None] == []
    variants = {one.variant for one in shapes.kernels if one.variant}
    assert launches(found) == launches(shapes.kernels, len(variants))
    # What a kernel moves it cannot move faster than twice the memory's peak.
    assert all(one.bound.percent < 200 for one in found if one.bound)


def test_each_kernel_is_stored_with_its_launch_and_what_it_took(
    nvprof, program, run, tmp_path
):
    run(nvprof, "-o", "a.nvprof", program)
    found = query(
        tmp_path / "a.nvprof",
        "SELECT call, grid_x, grid_y, grid_z, block_x, block_y, block_z, static_shared,"
        " dynamic_shared, registers > 8, called < start, start < end, count(*)"
        " FROM launch GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12",
    )
    assert found == [("cudaLaunchKernel", 4, 3, 2, 32, 2, 1, 256, 1024, 1, 1, 1, TIMES)]


def test_calls_are_counted_exactly(nvprof, program, run):
    counted = calls(run(nvprof, program).stderr)
    expected = {
        "cudaLaunchKernel": TIMES,
        "cudaEventRecord": 2 * TIMES,
        "cudaEventSynchronize": TIMES,
        "cudaEventElapsedTime": TIMES,
        "cudaEventCreate": 2,
        "cudaMalloc": 1,
        "cudaMemset": 1,
        "cudaMemcpy": 2,
        "[CUDA memcpy HtoD]": 1,
        "[CUDA memcpy DtoH]": 1,
        "[CUDA memset]": 1,
    }
    assert {name: counted.get(name) for name in expected} == expected
    assert "cuLaunchKernel" not in counted


def test_a_range_is_profiled_alone_where_asked(nvprof, program, run):
    counted = calls(run(nvprof, "--profile-from-start", "off", program, "range").stderr)
    assert counted["cudaLaunchKernel"] == TIMES
    assert counted["void spin<int=2, float>(float*, long long)"] == TIMES
    assert "cudaMalloc" not in counted and "[CUDA memset]" not in counted


def test_a_kernel_that_fails_leaves_the_table_of_what_came_before(nvprof, program, run):
    counted = calls(run(nvprof, program, "fault", status=1).stderr)
    assert counted["void spin<int=2, float>(float*, long long)"] == TIMES
    assert counted["cudaLaunchKernel"] == TIMES + 1


def test_it_agrees_with_pytorchs_profiler(nvprof, run, tmp_path):
    if find_spec("torch") is None:
        pytest.skip("gpu: PyTorch is not installed")
    (tmp_path / "work.py").write_text(TORCH)
    theirs = json.loads(run(sys.executable, "work.py", "watch").stdout.splitlines()[-1])
    run(nvprof, "--demangling", "off", "-o", "a.nvprof", sys.executable, "work.py")
    rows = query(
        tmp_path / "a.nvprof",
        "SELECT count(*), sum(end - start) / 1e3 FROM kernel GROUP BY name"
        " ORDER BY 2 DESC",
    )
    (count, us), *_ = rows
    their_count, their_us = max(theirs.values(), key=lambda row: row[1])
    assert count == their_count
    assert us == pytest.approx(their_us, rel=NEAR)
