"""A run is claimed once, and everybody can tell whether its holder lives."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from runner.core import Reason, RunRequest, State, events
from runner.core.request import to_json
from runner.execution import places
from runner.store import claim, runs
from runner.store.claim import Claim, ClaimedError, Standing
from runner.store.paths import Home, RunPaths
from runner.system import machine
from tests.kit.waiting import until

ROOT = Path(__file__).resolve().parents[2]
CLAIMER = """\
import sys
from pathlib import Path
from runner.store.claim import Claim, ClaimedError
from runner.store.paths import RunPaths
sys.stdin.read(1)
try:
    held = Claim(RunPaths(Path(sys.argv[1])))
    print("held", flush=True)
except ClaimedError:
    print("refused", flush=True)
sys.stdin.read(1)
"""


@pytest.fixture
def home(tmp_path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def paths(home) -> RunPaths:
    return runs.create(home)


def rewritten(paths: RunPaths, **changes: object) -> None:
    """Change what the holder's file says; it stays as locked as it was."""
    found = json.loads(paths.holder.read_text())
    for name, value in changes.items():
        (found if name in found else found["process"])[name] = value
    paths.holder.write_text(json.dumps(found))


def aged(*files: Path) -> None:
    for file in files:
        os.utime(file, (1, 1))


def claimers(paths: RunPaths, count: int) -> list[subprocess.Popen[str]]:
    return [
        subprocess.Popen(
            [sys.executable, "-c", CLAIMER, paths.root],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(count)
    ]


def let_go(process: subprocess.Popen[str]) -> None:
    process.stdin.write("x")
    process.stdin.flush()


@pytest.mark.programs
def test_of_two_workers_on_one_folder_one_holds_it_and_the_other_is_refused(paths):
    started = claimers(paths, 2)
    for process in started:
        let_go(process)

    said = sorted(process.stdout.readline().strip() for process in started)

    assert said == ["held", "refused"]
    assert places.standing(paths) is Standing.ALIVE
    for process in started:
        process.kill()
        process.communicate()
    assert places.standing(paths) is Standing.GONE
    assert [path.name for path in paths.root.iterdir()] == ["holder.json"]


def test_a_claim_is_for_ever(paths):
    Claim(paths).close()

    with pytest.raises(ClaimedError, match=paths.id):
        Claim(paths)


def test_a_reader_who_looks_while_it_is_claimed_neither_stops_it_nor_sees_it_gone(
    paths, monkeypatch
):
    seen = []
    link = os.link

    def looked_at(new: Path, name: Path) -> None:
        seen.append(places.standing(paths))
        link(new, name)
        seen.append(places.standing(paths))

    monkeypatch.setattr(os, "link", looked_at)
    with Claim(paths):
        seen.append(places.standing(paths))

    assert seen == [Standing.NOT_CLAIMED, Standing.ALIVE, Standing.ALIVE]


OTHER_NAMESPACE = {"namespace": "pid:[1]", "host": "a container"}


@pytest.mark.parametrize(
    ("says", "standing"),
    [
        ({"locked": False}, Standing.ALIVE),
        ({"locked": False, "pid": os.getpid(), "started": "1"}, Standing.GONE),
        ({"boot": "the one before"}, Standing.GONE),
        ({"boot": "another", "host": "another machine"}, Standing.ELSEWHERE),
        ({"locked": False, **OTHER_NAMESPACE}, Standing.ELSEWHERE),
    ],
    ids=["no locks", "recycled pid", "restarted", "other machine", "other namespace"],
)
def test_what_the_file_says_tells_whether_the_holder_lives(says, standing, home, paths):
    with Claim(paths):
        pass
    rewritten(paths, **says)

    assert places.standing(paths) is standing
    assert places.active(paths) is (standing is not Standing.GONE)
    if standing is Standing.ELSEWHERE:
        assert places.sweep(home) == []


def test_of_another_pid_namespace_the_lock_decides(paths):
    with Claim(paths):
        rewritten(paths, **OTHER_NAMESPACE)
        assert places.standing(paths) is Standing.ALIVE
    assert places.standing(paths) is Standing.GONE


def test_a_copy_of_a_folder_is_held_by_nobody(home, paths):
    with Claim(paths):
        copy = home.run("copied")
        shutil.copytree(paths.root, copy.root)

        assert places.standing(paths) is Standing.ALIVE
        assert places.standing(copy) is Standing.GONE


def test_a_copy_that_is_swept_changes_nothing_of_the_run_it_was_made_of(home, paths):
    made = events.Created(paths.id, "/p", "f.yml", None, machine.describe())
    paths.events.write_bytes(events.to_line(made, 1.0))
    with Claim(paths):
        copy = home.run("c" * 10)
        shutil.copytree(paths.root, copy.root)

        (lost,) = places.sweep(home)

        assert lost.id == copy.id
        assert not paths.record.exists()


@pytest.mark.parametrize(
    ("name", "file"), [("notes", "note"), ("a" * 10, "events.jsonl"), ("b" * 10, "d/f")]
)
def test_a_folder_that_may_be_somebodys_is_never_removed(home, name, file):
    kept = home.run(name).root / file
    kept.parent.mkdir(parents=True)
    kept.write_text("{}\n")
    aged(kept, kept.parent, home.run(name).root)

    assert places.sweep(home) == []
    assert kept.exists()


def test_what_was_called_lost_is_never_begun(home, paths):
    paths.parcel.write_bytes(to_json(RunRequest("/p", "rai_build.yml", "", "0" * 64)))
    aged(paths.root, paths.parcel)
    places.sweep(home)

    with pytest.raises(ClaimedError):
        Claim(paths)


def no_locks(file: int, operation: int) -> None:
    raise OSError(37, "No locks available")


def test_a_lock_that_cannot_be_asked_for_does_not_make_a_living_run_lost(
    paths, monkeypatch
):
    with Claim(paths):
        monkeypatch.setattr("fcntl.flock", no_locks)
        assert places.standing(paths) is Standing.ALIVE


def test_a_file_system_without_locks_is_claimed_once_all_the_same(paths, monkeypatch):
    monkeypatch.setattr("fcntl.flock", no_locks)
    with Claim(paths):
        found = claim.holder(paths)
        assert not found.locked
        assert places.standing(paths) is Standing.ALIVE
        with pytest.raises(ClaimedError):
            Claim(paths)


def test_a_file_system_without_hard_links_is_claimed_once_all_the_same(
    paths, monkeypatch
):
    def no_links(new: Path, name: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    with Claim(paths):
        assert places.standing(paths) is Standing.ALIVE
        with pytest.raises(ClaimedError):
            Claim(paths)
        assert places.standing(paths) is Standing.ALIVE
    assert places.standing(paths) is Standing.GONE


@pytest.mark.parametrize("content", ["", "{", "[]", "x" * 5000])
def test_a_damaged_file_is_waited_for_and_then_nobodys(paths, content):
    paths.holder.write_text(content)
    assert places.standing(paths) is Standing.ALIVE

    aged(paths.holder)

    assert places.standing(paths) is Standing.GONE


def test_a_file_from_the_future_keeps_nobody_waiting(paths):
    paths.holder.write_text("")
    later = time.time() + 86_400
    os.utime(paths.holder, (later, later))

    assert places.standing(paths) is Standing.GONE


def test_a_folder_that_nobody_claimed_is_left_alone_at_first_and_then_goes(home, paths):
    assert places.sweep(home) == []
    assert paths.root.exists()

    aged(paths.root)

    assert places.sweep(home) == []
    assert not paths.root.exists()


def test_a_sealed_run_that_nobody_claims_is_lost(home, paths):
    paths.parcel.write_bytes(to_json(RunRequest("/p", "rai_build.yml", "", "0" * 64)))
    assert places.sweep(home) == []

    half = paths.root / ".build.tar.zst.part"
    half.touch()
    aged(paths.root, paths.parcel)
    (lost,) = places.sweep(home)

    assert lost.state is State.LOST
    assert not half.exists()
    assert lost.project == "/p"
    assert lost.verdict.reason is Reason.RUNNER_LOST


def test_a_zombie_is_not_alive():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    stat = Path(f"/proc/{child.pid}/stat")
    started = stat.read_text().rpartition(")")[2].split()[19]
    identity = replace(machine.this_process(), pid=child.pid, started=started)
    assert machine.is_alive(identity)

    child.stdin.close()
    until(lambda: ") Z" in stat.read_text())

    assert not machine.is_alive(identity)
    child.wait()
