"""Full disks, read-only homes and clocks that jump: what is there stays readable."""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec import Struct

from runner.core import Reason, State, Stream, Verdict, events
from runner.store import prune, runs
from runner.store.paths import Home
from tests.core.test_record import CREATED
from tests.kit import program

DONE = events.Finished(Verdict(True, True, None, Reason.DONE))
READING = [
    "runs --json",
    "show latest",
    "show aa",
    "logs latest",
    "pull latest -o {out}",
    "runs",
    "--version",
    "doctor --json",
    "parse {log}",
]


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Mount a small disk, with more than a run shall want to be free."""
    monkeypatch.setattr(prune, "FLOOR_BYTES", 1 << 20)
    folder = tmp_path / "disk"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=16m", "rai-test", str(folder)]
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


PROJECT = {
    "rai_build.yml": (
        'commands: {build: [echo hello, sh -c "echo kept > $RAI_BUILD_DIR/kept"]}\n'
    )
}


@pytest.mark.root
@pytest.mark.programs
@pytest.mark.parametrize("trouble", ["full", "read-only"])
def test_what_only_reads_goes_on_where_nothing_can_be_written(
    trouble, disk, project, tmp_path
):
    assert rai("run -p {p} --engine bare", disk, p=project).returncode == 0
    run = json.loads(rai("runs --json", disk).stdout)[0]["id"]
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
    assert [r["id"] for r in json.loads(rai("runs --json", disk).stdout)] == [run]


class Full(Struct, frozen=True):
    """A run of ``command`` by ``line``, which fills the disk.

    ``named`` is a pattern of what the error names. ``free_bytes`` of the disk are free
    at the start, all if None.
    """

    command: str
    named: str
    line: str = "run -p {p} --engine {engine}"
    home: str = "{disk}/rai"
    temporary: str = ""
    project_bytes: int = 0
    free_bytes: int | None = None


LARGE = "head -c 4000000 /dev/urandom > $RAI_BUILD_DIR/large"
FILLING = {
    "at the start": Full("true", "disk of {disk}/rai", free_bytes=1 << 19),
    "packing": Full("true", "{disk}/rai/runs/", project_bytes=20 << 20),
    "output": Full(
        "head -c 40000000 /dev/zero", "{disk}/rai/runs/[0-9a-f]+/stdout.log"
    ),
    "build folder": Full(LARGE.replace("4", "24", 1), "{disk}/rai/runs/"),
    "output folder": Full(
        LARGE,
        "{disk}/out",
        "run -p {p} --engine {engine} -o {disk}/out",
        home="{tmp}/rai",
        free_bytes=1 << 19,
    ),
    "pull": Full(
        LARGE,
        "{disk}/out",
        "pull -o {disk}/out",
        home="{tmp}/rai",
        free_bytes=1 << 19,
    ),
    "temporary files": Full(
        "true",
        "{disk}/rai-[^/]+/src",
        home="{tmp}/rai",
        temporary="{disk}",
        project_bytes=1 << 20,
        free_bytes=1 << 19,
    ),
}
IN_DOCKER = ("output", "build folder", "output folder")


@pytest.mark.root
@pytest.mark.parametrize(
    ("engine", "case"),
    [
        *(pytest.param("local", case, marks=pytest.mark.local) for case in FILLING),
        *(pytest.param("docker", case, marks=pytest.mark.docker) for case in IN_DOCKER),
    ],
)
def test_a_full_disk_is_named_wherever_it_is_met(
    engine, case, disk, project, tmp_path, monkeypatch
):
    full = FILLING[case]
    places = {"disk": disk, "tmp": tmp_path, "p": project, "engine": engine}
    monkeypatch.setenv("RAI_HOME", full.home.format_map(places))
    monkeypatch.setenv("RAI_PROJECT_FILE_SIZE", "1GiB")
    monkeypatch.setenv("RAI_PROJECT_SIZE", "1GiB")
    monkeypatch.chdir(project)
    (project / "rai_build.yml").write_text(
        f"rai: {{version: 0.2, image: debian:bookworm-slim}}\n"
        "resources: {limits: {output: 1GiB, disk: 1GiB}}\n"
        f"commands: {{build: [\"sh -c '{full.command}'\"]}}\n"
    )
    if full.line.startswith("pull"):
        assert program.rai("run", "--engine", engine).returncode == 0
    (project / "data").write_bytes(os.urandom(full.project_bytes))
    if full.free_bytes is not None:
        filling = fill(disk)
        os.truncate(filling, filling.stat().st_size - full.free_bytes)
    if full.temporary:
        monkeypatch.setenv("TMPDIR", full.temporary.format_map(places))

    done = program.rai(*(word.format_map(places) for word in full.line.split()))

    assert done.returncode == Reason.DISK_FULL.exit_code, done.stderr
    assert re.search(full.named.format_map(places), done.stderr), done.stderr
    if case != "at the start":
        assert f"No space left on device; free some space on {disk}" in done.stderr
        assert Reason.DISK_FULL.advice in done.stderr
    assert "build.tar.zst" not in done.stderr
    assert not re.search("Traceback|--debug|internal", done.stderr), done.stderr
    assert program.rai("runs").returncode == 0


@pytest.mark.root
@pytest.mark.parametrize(
    "line", ["seq 1 1000000", "head -c 4000000 /dev/urandom > $RAI_BUILD_DIR/large"]
)
def test_the_record_of_a_run_whose_disk_is_full_says_so(line, disk, project):
    text = f"head -c 20000000 /dev/zero > {disk}/filling; {line}"
    (project / "rai_build.yml").write_text(
        f"commands: {{build: [\"sh -c '{text}'\", echo x]}}\n"
    )

    done = rai("run -p {p} --engine bare --keep-going", disk, p=project)

    assert done.returncode == 11, done.stderr
    (shown,) = json.loads(rai("runs --json", disk).stdout)
    assert shown["verdict"]["reason"] == "disk_full"
    assert not shown["verdict"]["served"]
    assert "No space left on device" in shown["verdict"]["message"]
    printed = rai("logs latest", disk)
    assert printed.returncode == 0
    whole = "".join(f"{n}\n" for n in range(1, 300_000))
    assert whole.startswith(printed.stdout.removesuffix("x\n"))


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
            recorder.keep(events.Output(0, Stream.STDOUT, bytes(17 << 20)))
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
