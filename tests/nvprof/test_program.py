"""The whole program, around programs that record as the library does."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from nvprof.program import NCU

HERE = Path(__file__).resolve().parent
NVPROF = HERE.parent.parent / "image" / "nvprof"
PROGRAM = (sys.executable, "-I", str(NVPROF / "nvprof"))
CUDA = (sys.executable, str(HERE / "fake_cuda.py"))
TIME = shutil.which("time", path="/usr/bin:/bin")
DEADLINE_S = 60


@pytest.fixture
def environ(tmp_path):
    """Give an environment with a library; the fake programs need not load it."""
    library, temporary = tmp_path / "libnvprof.so", tmp_path / "tmp"
    library.touch()
    temporary.mkdir()
    return {**os.environ, "NVPROF_LIBRARY": str(library), "TMPDIR": str(temporary)}


@pytest.fixture
def nvprof(tmp_path, environ):
    """Run nvprof, and see that it leaves nothing behind."""

    def run(*words, program=PROGRAM, stdin=None, **more):
        done = subprocess.run(
            [*program, *words],
            env={**environ, **more},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            input=stdin,
            timeout=DEADLINE_S,
            check=False,
        )
        assert "Traceback" not in done.stderr
        assert not list((tmp_path / "tmp").iterdir())
        assert not list(tmp_path.glob(".nvprof-*"))
        return done

    return run


def shown(said):
    """Give the processes whose results were printed."""
    return re.findall(r"==(\d+)== Profiling result:", said)


def counts(path):
    base = sqlite3.connect(path)
    try:
        (found,) = base.execute(
            "SELECT (SELECT count(*) FROM kernel), (SELECT count(*) FROM api)"
        )
    finally:
        base.close()
    return found


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


def test_the_first_line_is_there_as_soon_as_cuda_is_used(tmp_path, environ):
    words = [*PROGRAM, *CUDA, "cuda", "say", "ready", "sleep", "30"]
    with subprocess.Popen(
        words, env=environ, cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as process:
        assert "NVPROF is profiling process" in process.stderr.readline()
        process.terminate()
        rest = process.stderr.read()
    assert process.returncode == -signal.SIGTERM
    assert "Profiling result:" in rest
    assert "======== Error: Application received signal 143" in rest


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
    assert "became another program (exec)" in done.stderr


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
    assert f"ended by signal {number:d} ({name})" in done.stderr
    assert " GPU activities:   70.66%" in done.stderr
    assert done.stderr.endswith(f"Application received signal {128 + number}\n")


def test_no_core_of_nvprof_itself_is_left(nvprof, tmp_path):
    nvprof(*CUDA, "cut", "kill", "SIGQUIT")
    assert not list(tmp_path.glob("core*"))


def test_a_program_without_cuda_is_told_so(nvprof):
    done = nvprof(*CUDA, "say", "hello")
    assert done.returncode == 0
    assert done.stdout == "hello\n"
    assert done.stderr.splitlines() == [
        "======== Warning: No CUDA application was profiled, exiting",
        "No kernels were profiled.",
    ]


def test_what_was_dropped_is_told(nvprof):
    done = nvprof(*CUDA, "drop", "7")
    assert "Warning: 7 records were dropped due to insufficient device" in done.stderr


def test_streams_are_the_programs_own(nvprof):
    done = nvprof(*CUDA, "stdin", stdin="abc")
    assert done.stdout == "abc"


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        (["/nowhere/app"], 127, "application not found: /nowhere/app"),
        (["/tmp"], 126, "cannot be run: /tmp"),
        (["--foo"], 1, "unrecognized option --foo"),
        (["-f"], 1, "no application"),
        (["-o", "/nowhere/t", "true"], 1, "no such folder"),
        (["-o", "/tmp", "true"], 1, "it is a folder"),
        (["--log-file", "/nowhere/t", "true"], 1, "cannot write /nowhere/t"),
        (["-i", "/nowhere/t"], 1, 'cannot read "/nowhere/t"'),
        (["-i", __file__], 1, "no file that nvprof wrote"),
        (["--options", "/nowhere/t", "true"], 1, "cannot be read"),
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
    assert "/nowhere/lib.so is missing" in done.stderr


def test_accepted_options_say_one_sentence(nvprof):
    done = nvprof("--cpu-profiling", "on", *CUDA, "cuda")
    assert done.stderr.startswith("======== Warning: --cpu-profiling on is accepted")
    assert len(shown(done.stderr)) == 1


def test_help_and_version_go_to_stdout(nvprof):
    assert nvprof("--help").stdout.startswith("Usage: nvprof [options]")
    assert re.search(r"^Release version \d", nvprof("-V").stdout, re.MULTILINE)


def test_an_output_is_written_and_read_again(nvprof, tmp_path):
    done = nvprof("-o", "t.nvprof", *CUDA, "cuda")
    path = tmp_path / "t.nvprof"
    first, second = done.stderr.splitlines()
    assert "NVPROF is profiling process" in first
    assert re.fullmatch(
        rf"==\d+== Generated result file: {re.escape(str(path))}", second
    )
    assert counts(path) == (3, 4)
    again = nvprof("-i", "t.nvprof")
    assert again.stderr.startswith("======== Profiling result:\n")
    assert " GPU activities:   70.66%" in again.stderr
    assert again.returncode == 0


def test_an_output_that_exists_stops_before_the_program_runs(nvprof, tmp_path):
    (tmp_path / "t").write_text("mine")
    done = nvprof("-o", "t", *CUDA, "say", "ran")
    assert (done.returncode, done.stdout) == (1, "")
    assert 'file "t" exists; use -f' in done.stderr
    assert (tmp_path / "t").read_text() == "mine"
    assert nvprof("-f", "-o", "t", *CUDA, "cuda").returncode == 0
    assert counts(tmp_path / "t") == (3, 4)


def test_an_output_and_a_summary_or_trace_are_both_there(nvprof, tmp_path):
    done = nvprof("-o", "a", "--print-summary", *CUDA, "cuda")
    assert " GPU activities:" in done.stderr
    assert "Generated result file" in done.stderr
    done = nvprof("-o", "b", "--print-gpu-trace", *CUDA, "cuda")
    assert "SSMem: Static shared memory" in done.stderr
    assert " GPU activities:" not in done.stderr
    assert (tmp_path / "b").is_file()


def test_each_process_gets_its_file(nvprof, tmp_path):
    words = ("--profile-child-processes", "-o", "t.%p.%h.%q{RANK}.nvprof")
    done = nvprof(*words, *CUDA, "cuda", "fork", "cuda", RANK="3")
    files = sorted(tmp_path.glob("t.*.nvprof"))
    assert len(files) == 2
    for path in files:
        assert path.name.endswith(f".{socket.gethostname()}.3.nvprof")
        assert counts(path) == (3, 4)
    assert "Warning" not in done.stderr


def test_without_the_process_in_its_name_no_file_is_lost(nvprof, tmp_path):
    words = ("--profile-child-processes", "-o", "t")
    done = nvprof(*words, *CUDA, "cuda", "fork", "cuda")
    files = sorted(path.name for path in tmp_path.glob("t*") if path.is_file())
    assert files[0] == "t"
    pid = re.fullmatch(r"t\.(\d+)", files[1])[1]
    assert f'=={pid}== Warning: "t" is taken' in done.stderr
    assert 'Use "%p"' in done.stderr


def test_a_crash_leaves_its_output(nvprof, tmp_path):
    done = nvprof("-o", "t", *CUDA, "cut", "kill", "SIGSEGV")
    assert done.returncode == -signal.SIGSEGV
    assert counts(tmp_path / "t") == (3, 4)
    assert "ended by signal 11" in done.stderr
    assert "orderly end" in nvprof("-i", "t").stderr


@pytest.mark.parametrize("name", ["%1", "-"])
def test_the_log_may_go_to_stdout(nvprof, name):
    done = nvprof("--log-file", name, *CUDA, "cuda")
    assert done.stderr == ""
    assert len(shown(done.stdout)) == 1


def test_the_log_may_go_to_a_file(nvprof, tmp_path):
    done = nvprof("--csv", "--log-file", "a %h.csv", *CUDA, "cuda", "exit", "1")
    text = (tmp_path / f"a {socket.gethostname()}.csv").read_text()
    assert done.stderr == ""
    assert '"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n' in text
    assert text.endswith("======== Error: Application returned non-zero code 1\n")


def test_each_process_may_have_its_log(nvprof, tmp_path):
    words = ("--profile-child-processes", "--log-file", "log.%p")
    nvprof(*words, *CUDA, "cuda", "fork", "cuda")
    logs = sorted(tmp_path.glob("log.*"))
    assert len(logs) == 2
    for path in logs:
        assert shown(path.read_text()) == [path.suffix[1:]]


def test_quiet_says_nothing_and_keeps_the_status(nvprof):
    done = nvprof("--quiet", *CUDA, "cuda", "exit", "4")
    assert (done.returncode, done.stderr) == (4, "")


def test_kernels_are_chosen_where_the_program_runs(nvprof, tmp_path):
    done = nvprof("--kernels", "::forward:2", *CUDA, "cuda")
    assert re.search(r"28\.204ms +1 .*forward_kernel", done.stderr)
    assert "scale" not in done.stderr
    nvprof("--kernels", "scale", "-o", "t", *CUDA, "cuda")
    assert counts(tmp_path / "t") == (1, 4)


def test_a_trace_for_perfetto_is_made_of_a_file_and_of_a_run(nvprof, tmp_path):
    nvprof("-o", "t", *CUDA, "cuda")
    done = nvprof("-i", "t", "--export-trace", "t.json")
    path = tmp_path / "t.json"
    assert f"Generated trace file: {path}" in done.stderr
    found = json.loads(path.read_text())["traceEvents"]
    again = nvprof("-i", "t", "--export-trace", "t.json")
    assert again.returncode == 1
    assert "use -f" in again.stderr
    nvprof("--export-trace", "u.json", *CUDA, "cuda")
    assert len(json.loads((tmp_path / "u.json").read_text())["traceEvents"]) == len(
        found
    )


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
    words = ("--analysis-metrics", "--kernels", "::forward:1", "-m", "nonsense")
    path = f"{tools}:{os.environ['PATH']}"
    done = nvprof(*words, *CUDA, "say", "ran", "exit", "3", PATH=path)
    if "ERR_NVGPUCTRPERM" in done.stderr:
        pytest.skip("this machine's driver keeps counters for its administrator")
    assert (done.returncode, done.stdout) == (3, "ran\n")
    assert "no metric known here for nonsense" in done.stderr
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
    assert nvprof("--query-metrics").returncode == 1


def test_a_program_that_runs_too_long_is_ended(nvprof):
    began = time.monotonic()
    done = nvprof("--timeout", "0.2", *CUDA, "cuda", "sleep", "50")
    assert time.monotonic() - began < DEADLINE_S / 2
    assert done.returncode == -signal.SIGTERM
    assert "ran over 0.2 s" in done.stderr
    assert len(shown(done.stderr)) == 1


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_signal_for_nvprof_is_the_programs_too(tmp_path, environ, name):
    words = [*PROGRAM, *CUDA, "catch", "cuda", "say", "ready", "sleep", "30"]
    with subprocess.Popen(
        words,
        env=environ,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.Signals[name])
        said, told = process.communicate(timeout=DEADLINE_S)
    caught = name != "SIGHUP"
    assert said == ("caught\n" if caught else "")
    assert process.returncode == (3 if caught else -signal.SIGHUP)
    assert len(shown(told)) == 1
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize("catches", [True, False])
def test_control_c_reaches_the_program_once_and_the_tables_are_printed(
    tmp_path, environ, catches
):
    words = [*PROGRAM, *CUDA, *(["catch"] if catches else [])]
    words += ["cuda", "say", "ready", "sleep", "30"]
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execve(words[0], words, environ)
    said, sent = b"", False
    while True:
        try:
            data = os.read(terminal, 4096)
        except OSError:
            break
        if not data:
            break
        said += data
        if b"ready" in said and not sent:
            os.write(terminal, b"\x03")
            sent = True
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    text = said.decode().replace("\r", "")
    assert len(shown(text)) == 1
    if catches:
        assert text.count("caught\n") == 1
        assert os.waitstatus_to_exitcode(status) == 3
    else:
        assert os.waitstatus_to_exitcode(status) == -signal.SIGINT
        assert "Application received signal 130" in text
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize(("name", "pipe"), [("%1", "|"), ("%2", "2>&1 >/dev/null |")])
def test_a_reader_that_goes_away_changes_no_status(tmp_path, environ, name, pipe):
    words = " ".join([*PROGRAM, "--log-file", name, *CUDA, "cuda", "sleep", "0.2"])
    done = subprocess.run(
        ["bash", "-c", f"{words} exit 6 {pipe} true; exit ${{PIPESTATUS[0]}}"],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 6
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_log_that_cannot_be_written_changes_no_status(nvprof):
    done = nvprof("--log-file", "/dev/full", *CUDA, "cuda", "exit", "6")
    assert done.returncode == 6
    assert "Error: cannot write the log: No space left on device" in done.stderr


def test_a_wrapper_does_not_outlive_the_time_out(nvprof):
    script = " ".join([*CUDA, "cuda", "sleep", "50"])
    done = nvprof("--timeout", "0.2", "bash", "-c", f"{script}; exit 9")
    assert done.returncode in (9, -signal.SIGTERM)
    assert len(shown(done.stderr)) == 1


def test_ignored_signals_stay_ignored(tmp_path, environ):
    words = [*PROGRAM, *CUDA, "cuda", "say", "ready", "sleep", "0.5", "say", "on"]
    with subprocess.Popen(
        ["nohup", *words],
        env=environ,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGHUP)
        said, told = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, said) == (0, "on\n")
    assert len(shown(told)) == 1
