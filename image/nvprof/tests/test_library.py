"""nvprof and its library around programs that use CUDA, with a CUPTI of our own."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit import needs
from tests.kit.kept import kept
from tests.kit.program import run_program

pytestmark = pytest.mark.programs

TESTS = Path(__file__).resolve().parent
NVPROF = TESTS.parent
TOOLKIT = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))


@pytest.fixture(scope="session")
def fake(builds):
    """Return a program that uses CUDA, as its arguments say, and the library for it."""
    needs.need("cpp")
    if not (TOOLKIT / "include" / "cupti.h").is_file():
        pytest.skip("no CUPTI headers (CUDA_HOME)")
    sources = sorted((NVPROF / "injection").rglob("*.[ch]*"))
    programs = [TESTS / "fake_cupti.cpp", TESTS / "fake_cuda_program.cpp"]
    toolkit = [TOOLKIT / "include" / "cuda.h", TOOLKIT / "include" / "cupti_version.h"]
    version = subprocess.run(["g++", "--version"], capture_output=True, check=True)
    parts = [__file__.encode(), version.stdout, NVPROF / "Makefile"]
    home = kept(builds, [*parts, *sources, *programs, *toolkit], compiled)
    return home / "program", home / "build" / "libnvprof.so"


def compiled(home):
    """Compile a CUPTI of our own, the library for it, and a program that uses it."""
    (home / "lib").mkdir()
    (home / "include").symlink_to(TOOLKIT / "include")
    cupti, program = home / "lib" / "libcupti.so", home / "program"
    gxx = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-pthread"]
    shared = ["-shared", "-fPIC", f"-I{home}/include", f"-Wl,-soname,{cupti.name}"]
    found = [f"-Wl,-rpath,{home}/lib", "-ldl"]
    for argv in (
        [*gxx, *shared, "-o", cupti, TESTS / "fake_cupti.cpp"],
        ["make", "-s", "-C", NVPROF, f"BUILD={home}/build", f"CUDA_HOME={home}"],
        [*gxx, "-o", program, TESTS / "fake_cuda_program.cpp", cupti, *found],
    ):
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


@pytest.fixture
def nvprof(fake, tmp_path):
    """Return a function that runs nvprof; the word `PROGRAM` stands for the program."""
    program, library = fake

    def run(*words, around=(), **environ):
        words = [str(program) if word == "PROGRAM" else word for word in words]
        return run_program(
            [*around, sys.executable, "-I", NVPROF / "nvprof", *words],
            cwd=tmp_path,
            env={**os.environ, "NVPROF_LIBRARY": str(library), **environ},
        )

    return run


def rows(said):
    """Read the summary's rows: section, name, calls, total as it is printed."""
    found, section = [], None
    for line in said.splitlines():
        kind = re.match(r" *(GPU activities|API calls):", line)
        section = kind[1] if kind else section
        row = re.search(r"[\d.]+% +(\S+) +(\d+) +\S+ +\S+ +\S+  (.+)$", line)
        if row and section:
            found.append((section, row[3], int(row[2]), row[1]))
    return found


def test_what_ran_and_what_was_called_is_counted_exactly(nvprof):
    done = nvprof(
        *("PROGRAM", "init", "launch,_Z4tinyPf,2000,10", "copy,1,4096,300"),
        *("copy,2,4096,400", "set,64,100", "call,cudaDeviceSynchronize_v3020,50000"),
    )
    assert done.returncode == 0
    assert rows(done.stderr) == [
        ("GPU activities", "tiny(float*)", 10, "20.000us"),
        ("GPU activities", "[CUDA memcpy DtoH]", 1, "400ns"),
        ("GPU activities", "[CUDA memcpy HtoD]", 1, "300ns"),
        ("GPU activities", "[CUDA memset]", 1, "100ns"),
        ("API calls", "cudaDeviceSynchronize", 1, "50.000us"),
        ("API calls", "cudaLaunchKernel", 10, "20.000us"),
    ]


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("launch,f,10 call,cuMemcpyHtoD_v2,700", ["cudaLaunchKernel", "cuMemcpyHtoD"]),
        ("call,cuMemcpyHtoD_v2_ptds,5", ["cuMemcpyHtoD"]),
        ("call,cudaLaunchKernel_ptsz_v7000,5", ["cudaLaunchKernel"]),
        ("call,cuCtxCreate_v4,5", ["cuCtxCreate"]),
        ("call,cuFunc_value,5", ["cuFunc_value"]),
        # What CUPTI itself asks for is no call of the program.
        ("call,cuKernelGetName,900 call,cuCtxCreate,5", ["cuCtxCreate"]),
    ],
)
def test_a_call_that_the_program_makes_counts_without_its_version(nvprof, words, shown):
    done = nvprof("PROGRAM", "init", *words.split())
    names = [name for section, name, *_ in rows(done.stderr) if section == "API calls"]
    assert names == shown


def test_a_kernel_keeps_its_name_where_its_module_is_unloaded(nvprof, tmp_path):
    words = ("launch,f,30,3", "unload", "launch,_Z4tinyPf,10,2", "unload")
    done = nvprof("PROGRAM", "init", *words)
    expected = [("f", 3), ("tiny(float*)", 2)]
    assert [row[1:3] for row in rows(done.stderr)[:2]] == expected
    nvprof("-o", "a.nvprof", "PROGRAM", "init", *words)
    with sqlite3.connect(tmp_path / "a.nvprof") as file:
        counts = "SELECT kernel, count(*) FROM launch GROUP BY 1"
        assert file.execute(counts).fetchall() == expected


def test_each_kernel_of_a_graph_has_its_own_name(nvprof):
    done = nvprof("PROGRAM", "init", "launch,f,40", "graph,g,h,g")
    assert [row[1:3] for row in rows(done.stderr)[:3]] == [("f", 1), ("g", 2), ("h", 1)]


def test_threads_that_call_at_once_lose_nothing(nvprof):
    done = nvprof("PROGRAM", "init", "threads,8,5000")
    assert rows(done.stderr) == [("API calls", "cudaStreamQuery", 40_000, "0ns")]


def test_many_activities_come_through_a_few_buffers(nvprof):
    done = nvprof("PROGRAM", "init", "launch,_Z4tinyPf,1000,100000")
    assert rows(done.stderr)[0][:3] == ("GPU activities", "tiny(float*)", 100_000)
    assert "dropped" not in done.stderr


def test_what_was_dropped_is_said(nvprof):
    done = nvprof("PROGRAM", "init", "launch,f,10,3", "drop,17")
    assert re.search(r"^==\d+== Warning: .*\b17\b.*dropped", done.stderr, re.M)


def test_an_activity_that_a_fault_cut_short_is_counted_as_dropped(nvprof):
    done = nvprof("PROGRAM", "init", "launch,f,10,3", "launch,f,0")
    assert rows(done.stderr)[0][:3] == ("GPU activities", "f", 3)
    assert re.search(r"Warning: .*\b1\b.*dropped", done.stderr)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGTERM])
def test_a_crash_leaves_the_table_of_what_came_before_it(nvprof, number):
    done = nvprof("PROGRAM", "init", "launch,f,500,7", f"kill,{int(number)}")
    assert done.returncode == -number
    assert rows(done.stderr)[0][:3] == ("GPU activities", "f", 7)
    assert ("API calls", "cudaLaunchKernel", 7) in [r[:3] for r in rows(done.stderr)]


def test_even_one_that_nothing_can_catch(nvprof):
    done = nvprof("PROGRAM", "init", "launch,f,500,7", "sleep,400", "kill,9")
    assert done.returncode == -signal.SIGKILL
    assert rows(done.stderr)[0][:3] == ("GPU activities", "f", 7)


def test_a_program_that_leaves_without_its_exit_handlers_is_told_from_one_that_ends(
    nvprof,
):
    left = nvprof("PROGRAM", "init", "call,cuInit,5", "_exit,4")
    ended = nvprof("PROGRAM", "init", "call,cuInit,5", "exit,4")
    assert (left.returncode, ended.returncode) == (4, 4)
    assert "may be missing" in left.stderr
    assert "may be missing" not in ended.stderr


def test_a_fork_is_no_second_program_and_disturbs_nothing(nvprof):
    # The child calls what its parent never did, and so has no row yet.
    child = ("fork", "say,child", "call,cuChildsOwn,7", "launch,g,10,50", "join")
    around = ("init", "launch,f,10,3", *child, "launch,h,10,5", "call,cuParents,7")
    for trace in ((), ("--print-gpu-trace", "--print-summary")):
        done = nvprof(*trace, "PROGRAM", *around)
        assert done.stdout == "child\n"
        counts = {name: count for _, name, count, _ in rows(done.stderr)}
        assert counts == {"f": 3, "h": 5, "cudaLaunchKernel": 8, "cuParents": 1}
        assert done.stderr.count("Profiling result") == 1


def test_a_program_that_closes_all_files_keeps_its_own(nvprof, tmp_path):
    mine = tmp_path / "mine"
    done = nvprof("PROGRAM", "init", "launch,f,10", f"closeall,{mine}", "launch,f,10,9")
    assert rows(done.stderr)[0][:3] == ("GPU activities", "f", 10)
    assert mine.read_bytes() == b"x" * 75_000
    program = ("PROGRAM", "init", f"closeall,{mine}", "launch,f,10,100000")
    nvprof("-o", "a.nvprof", *program)
    assert mine.read_bytes() == b"x" * 75_000
    with sqlite3.connect(tmp_path / "a.nvprof") as file:
        assert file.execute("SELECT count(*) FROM kernel").fetchone() == (100_000,)


def test_a_child_that_uses_cuda_by_itself_is_shown_where_the_parent_does_not(nvprof):
    done = nvprof("PROGRAM", "fork", "init", "launch,f,10,5", "exit,6")
    assert done.returncode == 6
    assert rows(done.stderr)[0][:3] == ("GPU activities", "f", 5)


def test_only_what_lies_between_start_and_stop_counts_where_asked(nvprof):
    done = nvprof(
        *("--profile-from-start", "off", "PROGRAM", "init", "launch,before,10,5"),
        *("call,cudaProfilerStart_v4000,1", "launch,inside,10,7"),
        *("call,cudaProfilerStop_v4000,1", "launch,after,10,9"),
    )
    gpu = [row[1:3] for row in rows(done.stderr) if row[0] == "GPU activities"]
    assert gpu == [("inside", 7)]
    calls = {name: count for _, name, count, _ in rows(done.stderr)}
    assert calls["cudaLaunchKernel"] == 7


def test_a_file_holds_every_activity_with_the_launch_it_came_from(nvprof, tmp_path):
    done = nvprof(
        *("-o", "a.nvprof", "PROGRAM", "init", "launch,_Z4tinyPf,2000,3"),
        *("copy,1,4096,300", "set,64,100"),
    )
    assert "Generated result file" in done.stderr
    assert rows(done.stderr) == []
    again = nvprof("-i", "a.nvprof")
    assert rows(again.stderr)[0] == ("GPU activities", "tiny(float*)", 3, "6.0000us")
    with sqlite3.connect(tmp_path / "a.nvprof") as file:
        joined = file.execute(
            "SELECT call, grid_x, block_y, registers, static_shared, dynamic_shared,"
            " stream FROM launch"
        ).fetchall()
    assert joined == [("cudaLaunchKernel", 12, 16, 40, 2048, 512, 7)] * 3


@pytest.mark.parametrize(
    ("demangling", "written", "shown"),
    [
        ("on", "_Z4tinyPf", "tiny(float*)"),
        ("off", "_Z4tinyPf", "_Z4tinyPf"),
        ("on", "f", "f"),
        ("on", "_Zo", "_Zo"),
    ],
)
def test_a_name_is_demangled_where_it_is_mangled(nvprof, demangling, written, shown):
    done = nvprof("--demangling", demangling, "PROGRAM", "init", f"launch,{written},9")
    assert rows(done.stderr)[0][1] == shown


def test_what_a_call_gave_back_is_in_the_file(nvprof, tmp_path):
    nvprof("-o", "a", "PROGRAM", "init", "result,2", "call,cuMemAlloc,5", "result,0")
    with sqlite3.connect(tmp_path / "a") as file:
        assert file.execute("SELECT result FROM api").fetchall() == [(2,)]


def test_each_gpu_has_rows_of_its_own(nvprof):
    two = ("launch,f,10,3", "device,1", "launch,f,10,4")
    done = nvprof("--print-summary-per-gpu", "PROGRAM", "init", *two, "peer,4096,300")
    gpu = [row[1:3] for row in rows(done.stderr) if row[0] == "GPU activities"]
    assert gpu == [("[CUDA memcpy PtoP]", 1), ("f", 3), ("f", 4)]


def test_what_ran_before_a_wait_is_kept_however_the_program_leaves(nvprof):
    wait = "call,cudaDeviceSynchronize_v3020,5"
    done = nvprof("PROGRAM", "init", "launch,f,10,3", wait, "_exit,0")
    assert rows(done.stderr)[0][:3] == ("GPU activities", "f", 3)


def test_another_profiler_in_the_program_is_said(nvprof):
    done = nvprof("PROGRAM", "init", "say,on", FAKE_CUPTI_TAKEN="1")
    assert done.stdout == "on\n"
    assert "another profiler is there already" in done.stderr
    assert "exit normally" not in done.stderr


def test_it_records_nothing_where_nvprof_did_not_ask(fake, tmp_path):
    program, library = fake
    done = run_program(
        [program, "init", "launch,f,10,5", "say,done"],
        cwd=tmp_path,
        env={**os.environ, "CUDA_INJECTION64_PATH": str(library)},
        check=True,
    )
    assert (done.stdout, done.stderr) == ("done\n", "")
    assert list(tmp_path.iterdir()) == []


def test_where_there_is_no_room_the_program_goes_on_and_it_is_said(nvprof):
    limited = ["bash", "-c", 'ulimit -f 64; "$@"', "-"]
    done = nvprof("PROGRAM", "init", "launch,f,10,5", "say,on", around=limited)
    assert done.stdout == "on\n"
    assert "no space" in done.stderr
