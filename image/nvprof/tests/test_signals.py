"""Signals and time outs of the whole program."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest
from nvprof import store, stream
from nvprof.users import birth

from image.nvprof.tests import recording
from image.nvprof.tests.whole import CUDA, DEADLINE_S, PROGRAM, shown
from tests.kit.waiting import until

pytestmark = pytest.mark.programs


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


def test_a_program_that_runs_too_long_is_ended(nvprof):
    done = nvprof("--timeout", "0.2", *CUDA, "cuda", "sleep", "50")
    assert done.returncode == -signal.SIGTERM
    assert "exceeded 0.2 s" in done.stderr
    assert len(shown(done.stderr)) == 1


def signalled(words, folder, environ, number):
    """Send a program a signal once it is ready; return it with what it printed."""
    with subprocess.Popen(
        words,
        env=environ,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        return process, *process.communicate(timeout=DEADLINE_S)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT", "SIGUSR1", "SIGUSR2"])
def test_a_signal_for_nvprof_is_the_programs_too(tmp_path, environ, name):
    words = [*PROGRAM, *CUDA, "catch", "cuda", "say", "ready", "sleep", "30"]
    process, said, told = signalled(words, tmp_path, environ, signal.Signals[name])
    caught = name in ("SIGTERM", "SIGINT", "SIGUSR1")
    assert said == ("caught\n" if caught else "")
    assert process.returncode == (3 if caught else -signal.Signals[name])
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


def timed_out(nvprof, *words):
    """Run a shell that runs a program too long, in streams that keep no reader."""
    script = " ".join([*CUDA, *words, "sleep", "50"])
    command = f"{script} >/dev/null 2>&1; exit 9"
    done = nvprof("--timeout", "0.2", "bash", "-c", command)
    assert done.returncode in (9, -signal.SIGTERM)
    (pid,) = shown(done.stderr)
    return int(pid), done.stderr


def assert_gone(pid):
    """Fail where a process still lives, and end it then."""
    try:
        assert birth(pid) is None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_program_in_a_shell_does_not_outlive_the_time_out(nvprof):
    pid, said = timed_out(nvprof, "cuda")
    assert_gone(pid)
    assert "exceeded 0.2 s" in said


def test_a_program_in_a_shell_that_must_be_killed_is(nvprof):
    pid, said = timed_out(nvprof, "deaf", "cut")
    assert_gone(pid)
    assert "did not exit normally" in said


def test_tables_wait_for_a_program_that_ends_in_its_time(nvprof):
    _, said = timed_out(nvprof, "slow")
    assert "still running" not in said
    assert "exit normally" not in said


def test_a_process_that_told_its_end_is_not_ended_again(nvprof):
    pid, _ = timed_out(nvprof, "cuda", "over")
    try:
        assert birth(pid) is not None
    finally:
        os.kill(pid, signal.SIGKILL)


def test_ignored_signals_stay_ignored(tmp_path, environ):
    words = [*PROGRAM, *CUDA, "cuda", "say", "ready", "sleep", "0.5", "say", "on"]
    words.insert(0, "nohup")
    process, said, told = signalled(words, tmp_path, environ, signal.SIGHUP)
    assert (process.returncode, said) == (0, "on\n")
    assert len(shown(told)) == 1


@contextlib.contextmanager
def waiting(tmp_path, redirections=""):
    """Return an nvprof that prints a file, and waits for a reader."""
    made = recording.small(trace=True).bytes()
    (tmp_path / "raw").write_bytes(made)
    with (tmp_path / "raw").open("rb") as file:
        store.written(tmp_path / "t", file, stream.read_header(file), demangled=True)
    os.mkfifo(tmp_path / "fifo")
    words = shlex.join([*PROGRAM, "-i", "t", "--log-file", "fifo"])
    command = ["bash", "-c", f"exec {words} {redirections}"]
    with subprocess.Popen(command, cwd=tmp_path) as process:
        try:
            until(lambda: catches(process.pid, signal.SIGUSR2))
            yield process
        finally:
            process.kill()


def catches(pid, number):
    status = Path(f"/proc/{pid}/status").read_text()
    return bool(int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16) >> number - 1 & 1)


def test_a_signal_that_comes_after_the_programs_end_stops_no_results(tmp_path):
    with waiting(tmp_path) as process:
        process.send_signal(signal.SIGUSR1)
        process.send_signal(signal.SIGUSR2)
        said = (tmp_path / "fifo").read_text()
        assert process.wait(DEADLINE_S) == 0
    assert " GPU activities:   70.66%" in said


@pytest.mark.parametrize("fd", [0, 1, 2])
def test_no_file_of_nvprofs_own_gets_a_closed_streams_number(tmp_path, fd):
    with waiting(tmp_path, f"{fd}>&-") as process:
        # The log is not open yet, so whatever has the number is there to keep it.
        assert Path(f"/proc/{process.pid}/fd/{fd}").readlink() == Path(os.devnull)
