"""One run a GPU, whoever runs it and however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from runner.core import Gpu
from runner.core.errors import BusyError, EngineError
from runner.engines.gpu import nvidia

pytestmark = pytest.mark.programs

GPU = Gpu("GPU-1b2c3d4e-0000", "NVIDIA H200", 0)
NOBODY = 65534
HOLD = """
import sys, pathlib, subprocess
from runner.engines.gpu import nvidia
from runner.core import Gpu
uuid, folder, *child = sys.argv[1:]
with nvidia.hold(Gpu(uuid, "NVIDIA H200", 0), "theirs", pathlib.Path(folder)):
    if child:
        print(subprocess.Popen(["sleep", "60"]).pid, flush=True)
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path):
    """A folder that is not there yet, below one that all may use."""
    tmp_path.chmod(0o1777)
    return tmp_path / "rai-gpu"


@pytest.fixture
def holder(folder):
    """Start a process that holds the GPU, until its stdin is closed."""
    started = []

    def start(*words):
        argv = [sys.executable, "-c", HOLD, GPU.uuid, folder, *words]
        env = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = subprocess.Popen(argv, env=env, text=True, **pipes)
        started.append(process)
        said = []
        while not said or said[-1] != "held":
            said.append(process.stdout.readline().strip())
            assert said[-1], "the holder ended"
        return process, said[:-1]

    yield start
    for process in started:
        process.communicate(timeout=20)


def free(folder):
    with nvidia.hold(GPU, "mine", folder):
        return True


def test_a_gpu_that_another_process_holds_is_busy_and_says_who_has_it(folder, holder):
    process, _ = holder()
    with pytest.raises(BusyError) as error, nvidia.hold(GPU, "mine", folder):
        pass
    text = str(error.value)
    assert text.startswith(
        "GPU 0 (NVIDIA H200, GPU-1b2c3d4e-0000) is held by run theirs"
    )
    assert f"(process {process.pid}) since " in text
    assert time.strftime("%Y-") in text


@pytest.mark.parametrize(
    "text",
    [
        '{"run": "r", "user": "u", "pid": 1, "since": "never"}',
        '{"run": "r", "user": "u", "pid": 1, "since": NaN}',
        '{"run": "r", "user": "u", "pid": 1, "since": -1e20}',
        '{"run": "r", "user": "u", "pid": 1, "since": 1e17}',
        '{"run": "\\u001b[2J", "user": "u", "pid": 1, "since": 1}',
        "[" * 10_000,
    ],
)
def test_whatever_another_user_wrote_into_a_lock_its_gpu_is_busy(folder, holder, text):
    holder()
    (folder / f"{GPU.uuid}.lock").write_text(text)
    with pytest.raises(BusyError, match=r"is held by another run$"):
        free(folder)


def test_a_child_that_its_holder_left_behind_keeps_no_gpu(folder, holder):
    process, (child,) = holder("child")
    process.send_signal(signal.SIGKILL)
    process.wait()
    try:
        assert free(folder)
    finally:
        os.kill(int(child), signal.SIGKILL)


def test_two_runs_of_one_process_exclude_each_other(folder):
    with (
        nvidia.hold(GPU, "first", folder),
        pytest.raises(BusyError, match="run first"),
        nvidia.hold(GPU, "second", folder),
    ):
        pass
    assert free(folder)


def test_a_run_that_fails_lets_go(folder):
    with pytest.raises(ZeroDivisionError), nvidia.hold(GPU, "mine", folder):
        raise ZeroDivisionError
    assert free(folder)


def test_a_forked_child_does_not_keep_what_its_parent_let_go(folder):
    with nvidia.hold(GPU, "mine", folder):
        child = os.fork()
        if child == 0:
            signal.pause()
    try:
        assert free(folder)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_everybody_may_use_the_folder_and_its_files(folder):
    old = os.umask(0o077)
    try:
        assert free(folder)
    finally:
        os.umask(old)
    (file,) = folder.iterdir()
    assert folder.stat().st_mode & 0o7777 == 0o1777
    assert file.stat().st_mode & 0o777 == 0o666


@pytest.mark.root
def test_a_file_that_another_user_made_can_be_locked():
    """fs.protected_regular refuses O_CREAT on a stranger's file in a sticky folder."""
    with TemporaryDirectory(dir="/tmp") as open_to_all:
        Path(open_to_all).chmod(0o1777)
        folder = Path(open_to_all) / "rai-gpu"
        for user in (NOBODY, NOBODY - 1, 0):
            assert freed_by(user, folder)
        assert folder.stat().st_uid == NOBODY


def freed_by(user, folder):
    """Hold the GPU as another user, in a process of its own."""
    child = os.fork()
    if child == 0:
        os.setgid(user)
        os.setuid(user)
        try:
            os._exit(0 if free(folder) else 2)
        except (BusyError, EngineError):
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_file_that_is_removed_while_it_is_held_does_not_give_the_gpu_away(folder):
    with nvidia.hold(GPU, "first", folder):
        (file,) = folder.iterdir()
        file.unlink()
    with nvidia.hold(GPU, "second", folder), pytest.raises(BusyError, match="second"):
        free(folder)


@pytest.mark.parametrize("make", ["symlink_to", "hardlink_to"])
def test_a_link_in_the_files_place_is_not_followed(folder, make, monkeypatch):
    monkeypatch.setattr(nvidia, "PATIENCE_S", 0.05)
    folder.mkdir()
    victim = folder.parent / "victim"
    victim.write_text("precious")
    victim.chmod(0o600)
    getattr(folder / f"{GPU.uuid}.lock", make)(victim)
    with pytest.raises(EngineError, match="cannot be opened"):
        free(folder)
    assert victim.read_text() == "precious"
    assert victim.stat().st_mode & 0o777 == 0o600


def test_a_link_in_the_folders_place_is_not_followed(folder, monkeypatch):
    monkeypatch.setattr(nvidia, "PATIENCE_S", 0.05)
    (folder.parent / "elsewhere").mkdir()
    folder.symlink_to(folder.parent / "elsewhere")
    with pytest.raises(EngineError, match="mode 1777"):
        free(folder)
    assert list((folder.parent / "elsewhere").iterdir()) == []


def test_a_uuid_names_a_file_in_the_folder_and_nowhere_else(folder):
    with nvidia.hold(Gpu("MIG-GPU-1/../../x", "A100", 0), "mine", folder):
        assert [path.name for path in folder.iterdir()] == ["MIG-GPU-1_______x.lock"]


def test_the_folder_is_the_same_for_every_user():
    place = nvidia.shared_folder()
    assert place.parent in nvidia.LOCK_FOLDERS
    assert Path(place.parent).stat().st_mode & 0o1777 == 0o1777
