"""The whole program, around programs that record as the library does."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import sys

import pytest
from nvprof.program import NCU

from image.nvprof.tests.whole import CUDA, NVPROF, PROGRAM, TIME, counts, shown

pytestmark = pytest.mark.programs


@pytest.mark.smoke
def test_a_program_gets_nvprofs_lines_around_its_own(nvprof):
    done = nvprof(*CUDA, "cuda", "say", "hello")
    assert done.returncode == 0
    assert done.stdout == "hello\n"
    lines = done.stderr.splitlines()
    pid = re.match(r"==(\d+)==", lines[0])[1]
    command = "python fake_cuda.py cuda say hello"
    assert lines[:7] == [
        f"=={pid}== NVPROF is profiling process {pid}, command: {command}",
        f"=={pid}== Profiling application: {command}",
        f"=={pid}== Profiling result:",
        "            Type  Time(%)      Time     Calls       Avg       Min       Max"
        "  Name",
        " GPU activities:   70.66%  38.992ms         2  19.496ms  10.788ms  28.204ms"
        "  mxnet::op::forward_kernel(float*, float const *, int)",
        "                   29.33%  16.187ms        20  809.35us  1.0880us  15.768ms"
        "  [CUDA memcpy HtoD]",
        "                    0.00%     992ns         1     992ns     992ns     992ns"
        "  void scale<int=8, float, bool=1>(float*)",
    ]
    assert lines[7].startswith("      API calls:   99.98%  3.09439s        20")


def test_it_runs_as_a_module_too(nvprof):
    program = (sys.executable, "-m", "nvprof")
    done = nvprof(*CUDA, "cuda", program=program, PYTHONPATH=str(NVPROF))
    assert len(shown(done.stderr)) == 1


def test_the_oldest_python_that_it_is_for_reads_all_of_it():
    """Python 3.9 has its own grammar; no newer one may be needed."""
    import ast

    for path in sorted((NVPROF / "nvprof").glob("*.py")):
        ast.parse(path.read_text(), feature_version=(3, 9))


@pytest.mark.skipif(TIME is None, reason="no GNU time")
def test_gnu_time_may_stand_before_and_after(nvprof):
    inside = nvprof(TIME, *CUDA, "cuda")
    around = nvprof(*CUDA, "cuda", program=(TIME, *PROGRAM))
    for done in (inside, around):
        assert done.returncode == 0
        assert len(shown(done.stderr)) == 1
        assert re.search(r"\d+:\d+\.\d+elapsed", done.stderr)
    assert inside.stderr.index("elapsed") < inside.stderr.index("Profiling result")


@pytest.mark.parametrize(
    "wrapper",
    [("env",), ("bash", "-c", '"$@"; exit $?', "bash"), ("nice", "-n", "1")],
    ids=lambda wrapper: wrapper[0],
)
def test_a_wrapper_is_seen_through(nvprof, wrapper):
    done = nvprof(*wrapper, *CUDA, "cuda", "exit", "5")
    assert len(shown(done.stderr)) == 1
    assert done.returncode == 5


def test_a_launcher_that_used_no_cuda_gives_way_to_its_children(nvprof):
    script = " ".join(CUDA)
    done = nvprof("bash", "-c", f"{script} cuda; {script} say no; {script} cuda")
    assert len(set(shown(done.stderr))) == 2
    assert done.stderr.count("NVPROF is profiling process") == 2


def test_children_of_a_program_with_cuda_are_shown_only_where_asked_for(nvprof):
    alone = nvprof(*CUDA, "cuda", "fork", "cuda")
    every = nvprof("--profile-child-processes", *CUDA, "cuda", "fork", "cuda")
    assert len(shown(alone.stderr)) == 1
    assert alone.stderr.count("NVPROF is profiling") == 1
    first, second = shown(every.stderr)
    assert first in every.stderr.splitlines()[0]
    assert first != second


def test_a_program_that_became_another_is_shown_as_both(nvprof):
    done = nvprof(*CUDA, "cut", "exec", "cuda")
    first, second = shown(done.stderr)
    assert first == second
    assert "replaced by another program (exec)" in done.stderr


@pytest.mark.parametrize("status", [0, 1, 3, 255])
@pytest.mark.parametrize("uses", ["cuda", "say none"])
def test_the_exit_status_is_the_programs(nvprof, status, uses):
    done = nvprof(*CUDA, *uses.split(), "exit", str(status))
    assert done.returncode == status
    told = f"======== Error: Application returned non-zero code {status}\n"
    assert done.stderr.endswith(told) is (status != 0)


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGKILL", "SIGTERM"])
def test_a_crash_half_way_gives_the_table_and_the_signal(nvprof, name):
    done = nvprof(*CUDA, "cut", "kill", name)
    number = signal.Signals[name]
    assert done.returncode == -number
    assert f"killed by {name} ({number:d})" in done.stderr
    assert " GPU activities:   70.66%" in done.stderr
    assert done.stderr.endswith(f"Application received signal {128 + number}\n")


def test_a_program_without_cuda_is_told_so(nvprof):
    done = nvprof(*CUDA, "say", "hello")
    assert done.returncode == 0
    assert done.stdout == "hello\n"
    assert done.stderr.splitlines() == [
        "======== Warning: No CUDA application was profiled, exiting",
        "No kernels were profiled.",
    ]


def test_streams_are_the_programs_own(nvprof):
    done = nvprof(*CUDA, "stdin", stdin="abc")
    assert done.stdout == "abc"


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        (["/nowhere/app"], 127, "application not found: /nowhere/app"),
        (["/tmp"], 126, "cannot run application: /tmp"),
        (["--foo"], 1, "unrecognized option --foo"),
        (["-f"], 1, "no application"),
        (["-o", "/nowhere/t", "true"], 1, "no such folder"),
        (["-o", "/tmp", "true"], 1, "it is a folder"),
        (["--log-file", "/nowhere/t", "true"], 1, "cannot write /nowhere/t"),
        (["--log-file", "/nowhere/%p", "true"], 1, "cannot write /nowhere/%p"),
        (["-f", "-o", "/dev/null", "true"], 1, "it is not a regular file"),
        (["-f", "--export-trace", "/dev/null", "true"], 1, "it is not a regular file"),
        (["-i", "/nowhere/t"], 1, 'cannot read "/nowhere/t"'),
        (["-i", __file__], 1, "was not written by nvprof"),
        (["--options", "/nowhere/t", "true"], 1, "cannot read options"),
    ],
)
def test_what_cannot_be_is_told_in_nvprofs_form(nvprof, command, status, said):
    done = nvprof(*command)
    assert done.returncode == status
    assert done.stderr.startswith("======== Error: ")
    assert said in done.stderr


def test_a_library_that_is_missing_lets_the_program_run(nvprof):
    words = (*CUDA, "say", "hello", "exit", "2")
    done = nvprof(*words, NVPROF_LIBRARY="/nowhere/lib.so")
    assert (done.returncode, done.stdout) == (2, "hello\n")
    assert "/nowhere/lib.so not found" in done.stderr


def test_accepted_options_say_one_sentence(nvprof):
    done = nvprof("--cpu-profiling", "on", *CUDA, "cuda")
    assert done.stderr.startswith("======== Warning: --cpu-profiling on is accepted")
    assert len(shown(done.stderr)) == 1


def test_help_and_version_go_to_stdout(nvprof):
    assert nvprof("--help").stdout.startswith("Usage: nvprof [options]")
    assert re.search(r"^Release version \d", nvprof("-V").stdout, re.MULTILINE)


def test_quiet_says_nothing_and_keeps_the_status(nvprof):
    done = nvprof("--quiet", *CUDA, "cuda", "exit", "4")
    assert (done.returncode, done.stderr) == (4, "")


FAKE_NCU = """#!/bin/sh
echo "$@" > ncu.words
while [ "$1" != "{python}" ]; do shift; done
exec "$@"
"""


def test_counters_are_asked_of_ncu_where_it_is(nvprof, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "ncu").write_text(FAKE_NCU.format(python=sys.executable))
    (tools / "ncu").chmod(0o755)
    words = ("--analysis-metrics", "--kernels", "1:7:forward:1", "-m", "nonsense")
    path = f"{tools}:{os.environ['PATH']}"
    done = nvprof(*words, *CUDA, "say", "ran", "exit", "3", PATH=path)
    if "ERR_NVGPUCTRPERM" in done.stderr:
        pytest.skip("this machine's driver keeps counters for its administrator")
    assert (done.returncode, done.stdout) == (3, "ran\n")
    assert "no ncu metric is known for nonsense" in done.stderr
    assert "Ignoring contexts and streams of --kernels" in done.stderr
    assert (
        (tmp_path / "ncu.words")
        .read_text()
        .startswith(
            "--target-processes all --kernel-name regex:forward --launch-skip 0"
            " --launch-count 1 --set full"
        )
    )


@pytest.mark.skipif(any(map(shutil.which, NCU)), reason="ncu is here")
def test_without_ncu_one_sentence_is_said_and_the_timeline_is_profiled(nvprof):
    done = nvprof("--analysis-metrics", *CUDA, "cuda")
    assert done.stderr.count("Warning: Metrics, events and analysis metrics") == 1
    assert len(shown(done.stderr)) == 1


@pytest.mark.skipif(any(map(shutil.which, NCU)), reason="ncu is here")
@pytest.mark.parametrize("option", ["--query-metrics", "--query-events"])
def test_without_ncu_nothing_is_listed_and_nothing_runs(nvprof, option):
    done = nvprof(option)
    assert done.returncode == 1
    assert done.stderr == (
        "======== Error: listing metrics and events needs ncu (Nsight Compute), which"
        " was not found; nothing was run\n"
    )


@pytest.mark.parametrize(("name", "pipe"), [("%1", "|"), ("%2", "2>&1 >/dev/null |")])
def test_a_reader_that_goes_away_changes_no_status(nvprof, name, pipe):
    words = " ".join([*PROGRAM, "--log-file", name, *CUDA, "cuda", "sleep", "0.2"])
    done = nvprof(
        program=["bash", "-c", f"{words} exit 6 {pipe} true; exit ${{PIPESTATUS[0]}}"]
    )
    assert done.returncode == 6


@pytest.mark.parametrize("fd", [0, 1, 2])
def test_a_stream_that_is_closed_changes_no_status(nvprof, tmp_path, fd):
    words = shlex.join([*PROGRAM, "-o", f"t{fd}", *CUDA, "cuda", "closed", str(fd)])
    done = nvprof(program=["bash", "-c", f"{words} exit 6 {fd}>&-"])
    assert done.returncode == 6
    assert counts(tmp_path / f"t{fd}") == (3, 4)


def test_descriptors_that_nvprof_was_given_are_the_programs(nvprof):
    words = shlex.join(PROGRAM)
    done = nvprof(program=["bash", "-c", f"{words} cat <(echo here)"])
    assert (done.returncode, done.stdout) == (0, "here\n")


def test_nvprofs_own_descriptors_are_its_own(nvprof):
    list_ = "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))"
    words = (sys.executable, "-c", list_)
    done = nvprof("-o", "t", "--log-file", "log", *words)
    # Three streams, and that of the folder which is listed.
    assert done.stdout == "[0, 1, 2, 3]\n"
