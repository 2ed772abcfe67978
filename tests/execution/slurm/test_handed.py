"""Signs of life on a shared file system, and files that are written once."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from runner.core.errors import Cancel
from runner.execution import node, session
from runner.store import run_files
from runner.store.paths import RunPaths
from runner.store.run_files import LifeSign, SlurmSubmission
from runner.system import files
from tests.kit.waiting import until


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    found = RunPaths(tmp_path / "0123456789")
    found.root.mkdir()
    return found


def test_a_run_that_was_handed_over_says_where_to(paths):
    there = SlurmSubmission(paths.id, "slurm", "slurm:gpu", "rai-0123456789", "17")
    run_files.write_submission(paths, there)
    assert run_files.read_submission(paths) == there


def test_a_copy_of_a_folder_was_not_handed_over(paths, tmp_path):
    run_files.write_submission(
        paths, SlurmSubmission(paths.id, "slurm", "slurm", "rai-0123456789")
    )
    copy = paths.root.rename(tmp_path / "copy")
    assert run_files.read_submission(RunPaths(copy)) is None


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"run": 1}', b"x" * 10_000])
def test_a_damaged_file_is_as_none(paths, data):
    paths.handed.write_bytes(data)
    assert run_files.read_submission(paths) is None


def test_who_lives_gives_a_sign_again_and_again(paths, monkeypatch):
    monkeypatch.setattr(run_files, "BEAT_S", 0.01)
    with LifeSign(paths):
        for _ in range(3):
            os.utime(paths.beat, (0, 0))
            while paths.beat.stat().st_mtime == 0:
                pass
        there = files.time_there(paths.root)
        assert run_files.beat_age_s(paths, there) < 60
    assert threading.active_count() < 50


def test_a_sign_of_life_survives_that_its_folder_is_away(paths, tmp_path, monkeypatch):
    monkeypatch.setattr(run_files, "BEAT_S", 0.01)
    with LifeSign(paths):
        away = paths.root.rename(tmp_path / "away")
        paths.root.mkdir()
        while not paths.beat.exists():
            pass
        assert (away / "beat").exists()


def test_the_age_of_a_sign_is_that_of_the_file_systems_clock(paths):
    files.stamp(paths.beat)
    now = files.time_there(paths.root)
    os.utime(paths.beat, (now - 100, now - 100))
    assert 99 < run_files.beat_age_s(paths, now) < 101
    assert run_files.beat_age_s(paths, now - 3600) == 0  # nobody is older than now
    paths.beat.unlink()
    assert run_files.beat_age_s(paths, now) == float("inf")


def test_a_file_is_written_once_whoever_writes_it(tmp_path):
    file = tmp_path / "record.json"
    written = []

    def write(data: bytes) -> None:
        if files.write_once(file, data):
            written.append(data)

    threads = [threading.Thread(target=write, args=[b"%d" % n]) for n in range(16)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert written == [file.read_bytes()]
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_is_written_once_where_there_are_no_hard_links(tmp_path, monkeypatch):
    def link(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", link)
    file = tmp_path / "record.json"
    assert files.write_once(file, b"first")
    assert not files.write_once(file, b"second")
    assert file.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("handed_over", [True, False])
def test_only_a_run_on_a_node_ends_because_of_a_record_that_is_there(
    paths, monkeypatch, handed_over
):
    polls = []

    class CountingPaths(RunPaths, frozen=True):
        @property
        def cancel(self) -> Path:
            polls.append(1)
            return super().cancel

    monkeypatch.setattr(session, "CANCEL_POLL_S", 0.001)
    if handed_over:
        run_files.write_submission(
            paths, SlurmSubmission(paths.id, "slurm", "slurm", "rai-0123456789")
        )
    paths.record.write_bytes(b"{}")
    cancel = Cancel()
    with session._cancelled_by(CountingPaths(paths.root), cancel):
        while len(polls) < 3 and not cancel.requested:
            pass
    assert cancel.requested is handed_over


def test_what_a_node_writes_is_sent_to_the_file_system_soon_and_once(
    paths, monkeypatch
):
    sent: list[int] = []
    monkeypatch.setattr(node, "SENT_S", 0.01)
    monkeypatch.setattr(
        os, "fdatasync", lambda file: sent.append(os.fstat(file).st_size)
    )
    with node._sent_soon(paths), paths.stdout.open("ab", 0) as file:
        for size in (3, 6):
            file.write(b"out")
            until(lambda size=size: size in sent)
    assert sent == [3, 6] or sent == [0, 3, 6]
