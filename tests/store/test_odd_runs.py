"""Runs whose folders hold no usual files, that are elsewhere, or cannot be recorded."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from runner import pack
from runner.cli.main import _status
from runner.core import Reason, State, Verdict, events, work
from runner.core.errors import RaiError
from runner.engines import doctor
from runner.execution import places
from runner.pack import read
from runner.store import runs
from runner.store.claim import Claim, Standing
from runner.store.paths import Home, RunPaths
from runner.system.machine import describe
from tests.store.test_claim import rewritten

DONE = events.Finished(Verdict(True, True, None, Reason.DONE))
AWAY = {"boot": "another", "host": "another machine", "on": "far-away"}


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAI_ENGINE", "bare")


@pytest.fixture
def where() -> Home:
    return Home(Path(os.environ["RAI_HOME"]))


@pytest.fixture
def rai(capsys) -> Callable[..., tuple[int, str, str]]:
    def run(*words: str) -> tuple[int, str, str]:
        status = _status(words)
        return status, *capsys.readouterr()

    return run


def begun(where: Home, *more: events.Event) -> RunPaths:
    """Make a run whose holder is gone."""
    paths = runs.create(where)
    with Claim(paths), runs.Recorder(paths) as recorder:
        recorder.keep(events.Created(paths.id, "/p", "f.yml", None, describe()))
        for event in more:
            recorder.keep(event)
    return paths


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.mkdir()


def bound(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the path of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


@pytest.mark.parametrize("odd", [pipe, device, folder, bound, huge])
@pytest.mark.parametrize(
    "name", ["record.json", "events.jsonl", "holder.json", "stdout.log", "tag"]
)
def test_no_command_waits_for_or_reads_all_of_what_is_no_file_of_a_run(
    name, odd, where, rai, tmp_path
):
    output = events.Output(0, work.Stream.STDOUT, b"hello\n")
    paths = begun(where, output, DONE)
    (paths.root / name).unlink(missing_ok=True)
    odd(paths.root / name)
    os.utime(paths.root / name, (1, 1), follow_symlinks=False)

    for line in ("ps", "history", "history --json", "prune --dry-run --older 1s"):
        assert rai(*line.split())[0] == 0, line
    for line in ("show", "logs", "attach", "wait", "pull", "cancel", "tag", "replay"):
        words = (line, paths.id, *(["a-tag"] if line == "tag" else []))
        status, _, error = rai(*words)
        assert status in (0, 2, 10), (line, error)
        assert "defect" not in error
    if name not in ("record.json", "events.jsonl"):
        assert rai("rm", "--yes", paths.id)[0] == 0
        assert not paths.root.exists()


def test_an_archive_that_is_a_pipe_is_not_waited_for(tmp_path):
    pipe(tmp_path / "build.tar.zst")

    with pytest.raises(RaiError, match="not a regular file"):
        pack.unpack(tmp_path / "build.tar.zst", tmp_path / "out")


def test_a_run_elsewhere_is_listed_with_its_machine_and_can_be_removed_by_force(
    where, rai
):
    paths = begun(where)
    rewritten(paths, **AWAY)

    assert "new on far-away" in rai("ps")[1]
    assert json.loads(rai("ps", "--json")[1])[0]["on"] == "far-away"
    shown = rai("show", paths.id)[1]
    assert "new on far-away" in shown
    assert f"rai rm --force {paths.id}" in " ".join(shown.split())
    status, _, error = rai("wait", paths.id, "--timeout", "0.1s")
    assert status == 124
    assert "far-away" in error
    status, _, error = rai("cancel", "--no-wait", paths.id)
    assert status == 0
    assert f"rai rm --force {paths.id}" in error
    status, _, error = rai("rm", "--yes", paths.id)
    assert status == 2
    assert f"rai rm --force {paths.id}" in error
    assert paths.root.exists()

    assert rai("rm", "--yes", "--force", paths.id)[0] == 0
    assert not paths.root.exists()


def test_a_run_that_goes_on_here_is_not_removed_even_by_force(where, rai):
    paths = runs.create(where)
    with Claim(paths), runs.Recorder(paths) as recorder:
        recorder.keep(events.Created(paths.id, "/p", "f.yml", None, describe()))

        status, _, error = rai("rm", "--yes", "--force", paths.id)

        assert status == 2
        assert f"rai cancel {paths.id}" in error
        assert paths.root.exists()
        recorder.keep(DONE)


@pytest.fixture
def read_only(where) -> Iterator[Callable[[], None]]:
    """Mount the home on itself, and make it read-only when called."""
    where.root.mkdir(parents=True)
    words = ["mount", "--bind", str(where.root), str(where.root)]
    subprocess.run(words, check=True)
    remount = ["mount", "-o", "remount,ro,bind", str(where.root)]
    yield lambda: subprocess.run(remount, check=True) and None
    subprocess.run(["umount", "--lazy", str(where.root)], check=True)


@pytest.mark.root
@pytest.mark.filterwarnings("ignore:listing runs from their folders")
def test_a_killed_run_is_lost_even_where_that_cannot_be_recorded(where, rai, read_only):
    paths = begun(where)
    assert places.standing(paths) is Standing.GONE
    read_only()

    assert rai("ps")[1] == "Nothing is running.\n"
    (listed,) = json.loads(rai("history", "--json")[1])
    assert (listed["state"], listed["verdict"]["reason"]) == ("lost", "runner_lost")
    assert "lost" in rai("show", paths.id)[1]
    status, _, error = rai("wait", paths.id)
    assert status == 10
    assert f"Run {paths.id} ended: runner lost: the rai process died" in error
    status, _, error = rai("attach", paths.id)
    assert status == 10
    assert "the rai process died" in error
    assert not paths.record.exists()
    assert places.known(paths).state is State.LOST


def test_what_a_killed_unpacking_left_goes_with_the_next_to_the_same_place(tmp_path):
    into = tmp_path / "out [1]"
    with read._temporary(into) as going_on:
        left = tmp_path / f"{going_on.name[:-8]}killed00"
        left.mkdir()
        (left / "file").touch()
        alike = tmp_path / ".out.rai-unpacking-others"
        alike.mkdir()

        pack.creatable(into)

        assert not left.exists()
        assert going_on.exists()
        assert alike.exists()
    assert list(tmp_path.iterdir()) == [alike]


def test_a_folder_that_another_process_unpacks_into_is_left_alone(tmp_path):
    other = tmp_path / ".out.rai-unpacking-abcdefgh"
    other.mkdir()
    handle = os.open(other, os.O_RDONLY)
    with suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_EX)

    pack.creatable(tmp_path / "out")

    assert other.exists()
    os.close(handle)


@pytest.mark.parametrize(
    ("groups", "answer", "told"),
    [
        ("0::/user.slice/user-1000.slice/session-3.scope\n", b"b true\n", True),
        ("1:name=systemd:/user.slice/session-c1.scope\n0::/\n", b"b true\n", True),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", b"b false\n", False),
        ("0::/user.slice/user@1000.service/app.slice\n", b"b true\n", False),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", b"", False),
    ],
)
def test_doctor_says_where_a_logout_ends_detached_runs(groups, answer, told):
    found = doctor.detached(groups, answer)

    assert [one.subject for one in found] == ["detached runs"] * told
