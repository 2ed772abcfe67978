"""What killed runs leave on this machine, and who removes it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runner.core import DataFile, DataMount, Limits
from runner.core.errors import EngineError
from runner.engines import cgroup, folders
from runner.engines.bare import BareEngine
from runner.engines.local import LocalEngine
from runner.system import machine
from tests.kit import needs
from tests.kit.running import Subject, long_sleep, run
from tests.kit.waiting import running, until

pytestmark = pytest.mark.programs

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place for temporary folders."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def tag_of_the_dead() -> str:
    script = "from runner.system import machine; print(machine.this_process().tag)"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, check=True
    )
    return done.stdout.decode().strip()


def test_a_folder_whose_owner_was_killed_before_it_was_locked_is_removed(
    scratch: Path,
):
    (scratch / f"rai-x-{tag_of_the_dead()}-abc").mkdir()
    folders.reap()
    assert list(scratch.iterdir()) == []


def test_a_folder_without_a_lock_whose_owner_may_live_stays(scratch: Path):
    me = machine.this_process()
    elsewhere = tag_of_the_dead().partition(".")[2]
    kept = {
        f"rai-x-{me.tag}-abc",
        f"rai-x-1.{elsewhere}-abc",  # of another process namespace
        "rai-x-abc",
    }
    for name in kept:
        (scratch / name).mkdir()
    folders.reap()
    assert {path.name for path in scratch.iterdir()} == kept


def test_a_locked_folder_stays_and_an_unlocked_one_is_removed(scratch: Path):
    with folders.temporary("mine") as mine:
        left = scratch / f"rai-x-{tag_of_the_dead()}-abc"
        left.mkdir()
        (left / "lock").touch()
        folders.reap()
        assert list(scratch.iterdir()) == [mine.root]


def test_a_folder_that_rai_did_not_make_stays(scratch: Path):
    theirs = scratch / "rai-my-project" / "lock"
    theirs.parent.mkdir()
    theirs.touch()
    folders.reap()
    assert theirs.exists()


def test_a_process_that_left_a_killed_bare_run_is_ended_by_the_next_run(
    scratch: Path,
):
    sleep = long_sleep()
    argv = [sys.executable, "-m", "tests.kit.one_run", "bare"]
    argv += ["/usr/bin/time", f"setsid {sleep} & sleep 600"]
    env = os.environ | {"TMPDIR": str(scratch)}
    rai = subprocess.Popen(argv, cwd=ROOT, env=env)
    until(lambda: running(sleep))
    rai.send_signal(signal.SIGKILL)
    rai.wait()
    run(Subject(BareEngine()), ["true"])
    until(lambda: not running(sleep))
    assert list(scratch.iterdir()) == []


@pytest.mark.cgroups
def test_a_group_that_a_killed_run_made_elsewhere_is_found_by_the_runs_folder(
    scratch: Path,
):
    mine = cgroup.Group("mine", Limits())
    nearest = mine.folders[0].parent
    mine.close()
    session = nearest / f"session-{os.getpid()}"
    left = scratch / f"rai-x-{tag_of_the_dead()}-abc"
    group = session / left.name
    group.mkdir(parents=True)
    left.mkdir()
    (left / "groups").write_text(f"{group}\n/etc\n{session}\n")
    try:
        folders.reap()
        assert not group.exists()
        assert session.exists()
    finally:
        session.rmdir()


@pytest.mark.cgroups
def test_the_group_of_a_killed_process_is_removed_and_that_of_a_living_one_stays():
    script = """
import os, time
from runner.core import Limits
from runner.engines.cgroup import Group

group = Group("dead", Limits())
for file in group.joins:
    with open(file, "w") as out:
        out.write("0")
print(os.getpid(), *group.joins, flush=True)
if os.fork():
    os._exit(0)
os.closerange(0, 3)
time.sleep(600)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, check=True
    )
    dead = [Path(file).parent for file in done.stdout.decode().split()[1:]]
    assert all(folder.exists() for folder in dead)
    mine = cgroup.Group("mine", Limits())
    try:
        cgroup.reap()
        assert not any(folder.exists() for folder in dead)
        assert all(Path(file).exists() for file in mine.joins)
    finally:
        mine.close()


@pytest.mark.local
@pytest.mark.parametrize("kind", needs.SANDBOXES)
@pytest.mark.parametrize("content", [b"changed", None])
def test_a_sandbox_that_cannot_be_prepared_leaves_no_folder(
    kind: str, content: bytes | None, scratch: Path, tmp_path_factory
):
    engine = LocalEngine(kind=kind)
    file = tmp_path_factory.mktemp("project") / "file"
    if content is not None:
        file.write_bytes(content)
    data = DataMount("/data", (DataFile("file", file, "0" * 32, 7, file.parent),))
    with pytest.raises(EngineError, match=r"changed while|cannot be read"):
        run(Subject(engine), ["true"], data=[data])
    assert list(scratch.iterdir()) == []
