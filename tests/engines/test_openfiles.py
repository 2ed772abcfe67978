"""Removed files that take space: every way by which a program can hold one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner.engines import disk
from runner.engines.disk import DiskMeter
from tests.hostile.cases.disk import alone_on_the_disk

SIZE = 3_000_000
START = f"""
import ctypes, mmap, os, socket, sys, threading, time
libc = ctypes.CDLL(None)
CLONE_FILES = 0x400

def kept():
    handle = os.open("kept", os.O_RDWR | os.O_CREAT)
    os.write(handle, bytes({SIZE}))
    os.unlink("kept")
    return handle

def ready():
    print("ready", flush=True)
    time.sleep(60)
"""
HELD = {
    "by a descriptor": "file = kept(); ready()",
    "without a name from the start": f"""
file = os.open(".", os.O_TMPFILE | os.O_RDWR); os.write(file, bytes({SIZE})); ready()
""",
    "by a mapping": f"f = kept(); held = mmap.mmap(f, {SIZE}); os.close(f); ready()",
    "by a thread alone": """
def other():
    libc.unshare(CLONE_FILES)
    file = kept()
    ready()
threading.Thread(target=other).start()
""",
    "by a thread that outlives the first": """
def other():
    file = kept()
    time.sleep(0.3)
    ready()
threading.Thread(target=other).start()
libc.pthread_exit(None)
""",
    "by a mapping that outlives the first thread": f"""
file = kept()
held = mmap.mmap(file, {SIZE})
os.close(file)
threading.Timer(0.3, ready).start()
libc.pthread_exit(None)
""",
}
SENT = """
near, far = socket.socketpair()
file = kept()
socket.send_fds(near, [b"x"], [file])
os.close(file)
near.close()
ready()
"""


@contextmanager
def running(script: str, folder: Path) -> Iterator[int]:
    program = subprocess.Popen(
        [sys.executable, "-c", START + script], cwd=folder, stdout=subprocess.PIPE
    )
    try:
        assert program.stdout.readline() == b"ready\n"
        yield program.pid
    finally:
        program.kill()
        program.communicate()


@pytest.mark.parametrize("how", HELD)
def test_a_removed_file_counts_however_it_is_held(how: str, tmp_path: Path):
    with running(HELD[how], tmp_path) as pid:
        found = disk.removed([pid], {tmp_path.stat().st_dev})
    assert SIZE <= found.bytes < SIZE + 100_000
    assert not found.hidden


def test_a_file_in_a_message_is_hidden_and_then_the_lost_space_counts(tmp_path: Path):
    pids: list[int] = []
    meter = DiskMeter([tmp_path], 20 * SIZE, lambda: pids)
    assert meter.taken() < SIZE
    with alone_on_the_disk(), running(SENT, tmp_path) as pid:
        os.sync()
        assert disk.removed([pid], {tmp_path.stat().st_dev}).hidden
        filler = tmp_path / "others"
        filler.write_bytes(bytes(SIZE))
        pids.append(pid)
        assert meter.taken() >= SIZE


def test_more_open_files_than_are_looked_at_may_hide_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(disk, "MOST_FILES", 300)
    with running("ready()", tmp_path) as pid:
        assert not disk.removed([pid], set()).hidden
    with running("files = [os.dup(0) for _ in range(300)]; ready()", tmp_path) as pid:
        assert disk.removed([pid], set()).hidden


def test_an_ended_process_holds_nothing():
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert disk.removed([ended.pid], {0}) == disk.RemovedFiles()
