"""Full disks, read-only homes and clocks that jump: what is there stays readable."""

from __future__ import annotations

import errno
import itertools
import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from runner.core import Reason, State, Stream, Verdict, events
from runner.store import runs
from runner.store.paths import Home
from tests import program
from tests.runner.test_record import CREATED

DONE = events.Finished(Verdict(True, True, None, Reason.DONE))
READING = [
    "history --json",
    "show latest",
    "show aa",
    "logs latest",
    "pull latest -o {out}",
    "ps",
    "--version",
    "doctor --json",
    "parse {log}",
]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a small disk, with a little more than a run wants to be free."""
    folder = tmp_path / "disk"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=220m", "rai-test", str(folder)]
    subprocess.run(words, check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """Fill the disk to its last byte."""
    file = disk / "filling"
    with suppress(OSError), file.open("ab", 0) as out:
        for size in (1 << 20, 4096):
            with suppress(OSError):
                while True:
                    out.write(bytes(size))
    return file


def rai(line: str, disk: Path, **places: Path) -> subprocess.CompletedProcess[str]:
    words = [word.format_map(places) for word in line.split()]
    return program.rai(*words, env={**os.environ, "RAI_HOME": str(disk / "rai")})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "rai_build.yml").write_text(
        'commands: {build: [echo hello, sh -c "echo kept > $RAI_BUILD_DIR/kept"]}\n'
    )
    return folder


@pytest.mark.root
@pytest.mark.programs
@pytest.mark.parametrize("trouble", ["full", "read-only"])
def test_what_only_reads_goes_on_where_nothing_can_be_written(
    trouble, disk, project, tmp_path
):
    assert rai("run -p {p} --engine bare", disk, p=project).returncode == 0
    run = json.loads(rai("history --json", disk).stdout)[0]["id"]
    if trouble == "full":
        fill(disk)
    else:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    log = tmp_path / "log"
    log.write_text("New Inference\nOp Time: 0.25\n")

    for line in READING:
        line = line.replace("aa", run)
        done = rai(line, disk, out=tmp_path / "out", log=log)

        assert done.returncode == 0, (line, done.stderr)
        assert not done.stderr, (line, done.stderr)

    assert (tmp_path / "out" / "kept").read_text() == "kept\n"
    assert rai("logs latest", disk).stdout == "hello\n"
    assert [r["id"] for r in json.loads(rai("history --json", disk).stdout)] == [run]


@pytest.mark.root
@pytest.mark.programs
@pytest.mark.parametrize(
    "line", ["seq 1 1000000", "head -c 4000000 /dev/urandom > $RAI_BUILD_DIR/large"]
)
def test_a_run_whose_disk_is_full_ends_so_and_says_so(line, disk, project):
    text = f"head -c 300000000 /dev/zero > {disk}/filling; {line}"
    (project / "rai_build.yml").write_text(
        f"commands: {{build: [\"sh -c '{text}'\", echo x]}}\n"
    )

    done = rai("run -p {p} --engine bare --keep-going", disk, p=project)

    assert done.returncode == 10, done.stderr
    assert f"free some space on {disk}" in done.stderr
    assert "Traceback" not in done.stderr
    (shown,) = json.loads(rai("history --json", disk).stdout)
    assert shown["verdict"]["reason"] == "internal"
    assert "No space left on device" in shown["verdict"]["message"]
    printed = rai("logs latest", disk)
    assert printed.returncode == 0
    whole = "".join(f"{n}\n" for n in range(1, 300_000))
    assert whole.startswith(printed.stdout.removesuffix("x\n"))


@pytest.mark.root
@pytest.mark.programs
def test_a_full_disk_of_temporary_files_is_named(disk, project, tmp_path, monkeypatch):
    (project / "large").write_bytes(os.urandom(1 << 20))
    filling = fill(disk)
    os.truncate(filling, filling.stat().st_size - (1 << 19))
    monkeypatch.setenv("TMPDIR", str(disk))

    done = rai("run -p {p} --engine bare", tmp_path, p=project)

    assert done.returncode == 10, done.stderr
    assert f"No space left on device; free some space on {disk}" in done.stderr
    assert "a bug" not in done.stderr


@pytest.mark.root
@pytest.mark.programs
def test_a_full_disk_that_a_build_folder_goes_to_is_named(disk, project, tmp_path):
    (project / "rai_build.yml").write_text(
        'commands: {build: ["head -c 1000000 /dev/urandom > $RAI_BUILD_DIR/large"]}\n'
    )
    assert rai("run -p {p} --engine bare", tmp_path, p=project).returncode == 0
    filling = fill(disk)
    os.truncate(filling, filling.stat().st_size - (1 << 19))

    done = rai("pull latest -o {out}", tmp_path, out=disk / "out")

    assert done.returncode == 10, done.stderr
    assert f"No space left on device; free some space on {disk}" in done.stderr
    assert "build.tar.zst" not in done.stderr
    assert "a bug" not in done.stderr


@pytest.mark.root
def test_an_event_is_kept_whole_or_not_at_all_and_the_end_has_room(disk):
    paths = runs.create(Home(disk))
    with runs.Recorder(paths) as recorder:
        recorder.keep(CREATED)
        file = fill(disk)
        with pytest.raises(OSError, match=r"events\.jsonl") as caught:
            for _ in range(10_000):
                recorder.keep(events.Warned("x" * 100))
        assert caught.value.errno == errno.ENOSPC
        assert paths.events.read_bytes().endswith(b"\n")
        recorder.keep(events.Finished(Verdict(False, False, None, Reason.INTERNAL)))

    (paths.root / "record.json").unlink()
    found = runs.read(paths)
    assert found is not None
    assert (found.state, found.verdict) == (State.DONE, recorder.record.verdict)
    assert file.exists()


@pytest.mark.root
def test_a_run_that_is_done_on_a_full_disk_is_recorded_as_done(disk):
    paths = runs.create(Home(disk))
    with runs.Recorder(paths) as recorder:
        recorder.keep(CREATED)
        fill(disk)
        recorder.keep(DONE)

    assert paths.record.exists()
    assert not list(paths.root.glob(".*"))


@pytest.mark.root
def test_output_that_finds_no_room_is_not_told_in_part(disk):
    paths = runs.create(Home(disk))
    with runs.Recorder(paths) as recorder:
        recorder.keep(CREATED)
        recorder.keep(events.Output(0, Stream.STDOUT, b"hello\n"))
        with pytest.raises(OSError, match=r"stdout\.log"):
            recorder.keep(events.Output(0, Stream.STDOUT, bytes(221 << 20)))
        recorder.keep(DONE)

    assert paths.stdout.read_bytes() == b"hello\n"
    assert recorder.record.stdout_bytes == 6


@pytest.mark.parametrize("jump_s", [-86_400.0, 86_400.0])
def test_the_times_of_a_run_do_not_jump_with_the_clock(jump_s, tmp_path, monkeypatch):
    paths = runs.create(Home(tmp_path))
    with runs.Recorder(paths) as recorder:
        recorder.keep(CREATED)
        before = time.time
        monkeypatch.setattr(time, "time", lambda: before() + jump_s)
        recorder.keep(events.Warned("jumped"))
        recorder.keep(DONE)

    times = [at for at, _ in runs.stamped(paths)]
    assert all(0 <= b - a < 3600 for a, b in itertools.pairwise(times))
    assert abs(times[0] - before()) < 3600
