"""The files that the whole program writes and reads."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from image.nvprof.tests.whole import CUDA, PROGRAM, counts, shown

pytestmark = pytest.mark.programs


@pytest.mark.smoke
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
    assert f'=={pid}== Warning: "t" exists already' in done.stderr
    assert 'Use "%p"' in done.stderr


def test_a_crash_leaves_its_output(nvprof, tmp_path):
    done = nvprof("-o", "t", *CUDA, "cut", "kill", "SIGSEGV")
    assert done.returncode == -signal.SIGSEGV
    assert counts(tmp_path / "t") == (3, 4)
    assert "killed by SIGSEGV (11)" in done.stderr
    assert "did not exit normally" in nvprof("-i", "t").stderr


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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_log_that_cannot_be_written_changes_no_status(nvprof):
    done = nvprof("--log-file", "/dev/full", *CUDA, "cuda", "exit", "6")
    assert done.returncode == 6
    assert "Error: cannot write the log: No space left on device" in done.stderr


def test_a_log_for_a_stream_that_is_closed_goes_nowhere(nvprof):
    for name, fd in (("%1", 1), ("%2", 2)):
        words = shlex.join([*PROGRAM, "--log-file", name, *CUDA, "cuda"])
        done = nvprof(program=["bash", "-c", f"{words} exit 6 {fd}>&-"])
        assert (done.returncode, done.stdout, done.stderr) == (6, "", "")


def test_each_process_whose_log_cannot_be_written_still_gives_its_status(
    nvprof, tmp_path
):
    done = nvprof("--log-file", "%p/log", *CUDA, "cuda", "exit", "6")
    assert done.returncode == 6
    assert "Error: cannot write the log: No such file or directory" in done.stderr
    assert not list(tmp_path.glob("*/log"))


def test_a_fifo_and_a_link_to_one_are_no_outputs(nvprof, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    for name in ("fifo", "link"):
        done = nvprof("-f", "-o", name, *CUDA, "say", "ran")
        assert (done.returncode, done.stdout) == (1, "")
        assert f'cannot write "{name}": it is not a regular file' in done.stderr
    assert (tmp_path / "fifo").is_fifo()


def test_a_fifo_that_comes_later_is_not_overwritten(nvprof, tmp_path):
    script = f"mkfifo t; {shlex.join(CUDA)} cuda"
    done = nvprof("-f", "-o", "t", "bash", "-c", script)
    (pid,) = re.findall(r"==(\d+)== Generated", done.stderr)
    assert (tmp_path / "t").is_fifo()
    assert counts(tmp_path / f"t.{pid}") == (3, 4)


def test_a_link_is_written_through(nvprof, tmp_path):
    far = tmp_path / "far"
    far.mkdir()
    (far / "t").write_text("old")
    (tmp_path / "link").symlink_to("far/t")
    (tmp_path / "new").symlink_to("far/u")
    assert "use -f" in nvprof("-o", "link", *CUDA, "cuda").stderr
    assert (far / "t").read_text() == "old"
    for name, file in (("link", "t"), ("new", "u")):
        assert nvprof("-f", "-o", name, *CUDA, "cuda").returncode == 0
        assert (tmp_path / name).is_symlink()
        assert counts(far / file) == (3, 4)


def test_with_a_file_to_read_an_output_is_ignored_and_said_to_be(nvprof, tmp_path):
    nvprof("-o", "t", *CUDA, "cuda")
    done = nvprof("-i", "t", "-o", "u")
    assert done.returncode == 0
    assert "Warning: Ignoring -o: -i only prints" in done.stderr
    assert " GPU activities:   70.66%" in done.stderr
    assert not (tmp_path / "u").exists()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Return a file that the whole program wrote."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "libnvprof.so").touch()
    environ = {**os.environ, "NVPROF_LIBRARY": str(folder / "libnvprof.so")}
    argv = [*PROGRAM, "-o", "t", *CUDA, "cuda"]
    subprocess.run(argv, cwd=folder, env=environ, capture_output=True, check=True)
    return (folder / "t").read_bytes()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE nvprof SET value = 'many' WHERE key = 'dropped'", "dropped"),
        ("ALTER TABLE nvprof RENAME COLUMN value TO other", "no such column: value"),
        ("ALTER TABLE kernel RENAME COLUMN registers TO other", "kernel.registers"),
        ("UPDATE kernel SET device = NULL", "table kernel has a value of a wrong type"),
        ("UPDATE memcpy SET start = 'soon'", "table memcpy has a value of a wrong"),
        ("UPDATE api SET thread = 1.5", "table api has a value of a wrong type"),
        ("UPDATE device SET name = NULL", "table device has a value of a wrong type"),
        ("UPDATE name SET text = x'00ff'", "table name has a value of a wrong type"),
        ("DROP TABLE memset", "no such table: memset"),
    ],
)
@pytest.mark.parametrize(
    "words", [[], ["--print-gpu-trace"], ["--export-trace", "t.json"]]
)
def test_a_damaged_file_is_an_error(nvprof, recorded, tmp_path, change, said, words):
    (tmp_path / "t").write_bytes(recorded)
    with closing(sqlite3.connect(tmp_path / "t")) as base, base:
        base.execute("DROP VIEW launch")
        base.execute(change)
    done = nvprof("-i", "t", *words)
    assert done.returncode == 1
    assert done.stderr.startswith('======== Error: "t" is damaged: ')
    assert said in done.stderr
    assert not (tmp_path / "t.json").exists()
