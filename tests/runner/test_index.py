"""The index of runs: found by prefix, listed newest first, and always replaceable."""

from __future__ import annotations

import multiprocessing
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner.core import (
    CommandRecord,
    EngineFacts,
    Findings,
    Inference,
    Outcome,
    Reason,
    RunRecord,
    State,
    Verdict,
)
from runner.core.errors import RaiError
from runner.store import entries, home, index
from runner.store.paths import Home
from runner.store.query import RunQuery


def record(run_id: str, created_at: float = 1.0, **more: object) -> RunRecord:
    return RunRecord(run_id, "/home/me/project", "rai_build.yml", created_at, **more)  # type: ignore[arg-type]


def printed(inference: Inference) -> CommandRecord:
    found = Findings((inference,))
    return CommandRecord(0, "python m1.1.py", None, Outcome.OK, findings=found)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "index.sqlite"


def test_a_run_that_was_put_is_listed_with_what_a_listing_shows(path):
    done = record(
        "2026-a",
        10.0,
        ended_at=12.0,
        state=State.DONE,
        verdict=Verdict(True, False, None, Reason.COMMAND_FAILED),
        engine=EngineFacts("local"),
        commands=(printed(Inference(agreement=0.9)),),
    )
    with index.open_index(path) as runs:
        runs.put(done)
    with index.open_index(path) as runs:
        assert runs.list_runs() == [
            entries.Entry(
                id="2026-a",
                created_at=10.0,
                ended_at=12.0,
                project="/home/me/project",
                state=State.DONE,
                reason=Reason.COMMAND_FAILED,
                engine="local",
                exit_code=1,
                op_time_s=None,
                correctness=None,
                synthetic=True,
            )
        ]


def test_a_run_that_is_put_again_is_replaced(path):
    with index.open_index(path) as runs:
        runs.put(record("a", state=State.RUNNING))
        runs.put(record("a", state=State.LOST))
        assert [entry.state for entry in runs.list_runs()] == [State.LOST]


@pytest.mark.parametrize(
    ("inferences", "op_time_s", "correctness"),
    [
        ((), None, None),
        ((Inference(correctness=0.8), Inference(correctness=0.9)), None, 0.9),
        (
            (
                Inference(correctness=0.9),
                Inference((0.2, 0.1), 0.85),
                Inference((0.5, 0.25), 0.75),
            ),
            pytest.approx(0.75),
            0.75,
        ),
    ],
)
def test_the_figures_of_a_run_are_those_of_its_last_inference(
    path, inferences, op_time_s, correctness
):
    with index.open_index(path) as runs:
        runs.put(record("a", commands=tuple(map(printed, inferences))))
        (entry,) = runs.list_runs()
    assert (entry.op_time_s, entry.correctness) == (op_time_s, correctness)


def test_runs_are_found_by_the_beginning_of_their_id_newest_first(path):
    with index.open_index(path) as runs:
        runs.put(record("ab1", 1), record("ab2", 2), record("b_%", 3))
        assert runs.find("ab") == ["ab2", "ab1"]
        assert runs.find("ab1") == ["ab1"]
        assert runs.find("_") == runs.find("%") == runs.find("B") == []
        assert runs.find("") == ["b_%", "ab2", "ab1"]
        assert runs.latest() == "b_%"
        runs.remove("b_%")
        assert runs.latest() == "ab2"


def test_an_empty_index_has_no_latest_run(path):
    with index.open_index(path) as runs:
        assert runs.latest() is None and runs.list_runs() == []


def test_a_listing_can_be_of_one_project_of_active_runs_and_short(path):
    with index.open_index(path) as runs:
        runs.put(*(record(f"r{n}", n, state=state) for n, state in enumerate(State)))
        runs.put(RunRecord("other", "/elsewhere", "rai_build.yml", 99))
        active = runs.list_runs(RunQuery(active=True, project="/home/me/project"))
        assert [e.state for e in active] == [s for s in reversed(State) if not s.final]
        ended = runs.list_runs(RunQuery(active=False))
        assert {e.state for e in ended} == {s for s in State if s.final}
        assert [e.id for e in runs.list_runs(limit=2)] == ["other", "r8"]
        assert [e.id for e in runs.list_runs(RunQuery(project="/elsewhere"))] == [
            "other"
        ]


def test_an_index_of_another_version_is_made_again(path):
    path.parent.mkdir(exist_ok=True)
    with sqlite3.connect(path) as old:
        old.execute("CREATE TABLE runs (id, colour)")
        old.execute("INSERT INTO runs VALUES ('old', 'green')")
        old.execute(f"PRAGMA user_version = {index.VERSION + 1}")
    old.close()
    with index.open_index(path) as runs:
        assert runs.find("") == []
        runs.put(record("a"))
        assert runs.find("") == ["a"]


@pytest.mark.parametrize("damage", ["text", "holes", "empty"])
def test_a_damaged_index_is_made_again_after_a_restart(
    path, damage, tmp_path, monkeypatch
):
    with index.open_index(path) as runs:
        runs.put(*(record(f"run-{n}", n) for n in range(500)))
    content = bytearray(path.read_bytes())
    content[4096 : 3 * 4096] = b"\xff" * 8192
    wrong = {"text": b"no database\n" * 99, "holes": bytes(content), "empty": b""}
    path.write_bytes(wrong[damage])
    restarted = tmp_path / "boot_id"
    restarted.write_text("another start of the system")
    monkeypatch.setattr(index, "BOOT_ID", restarted)
    with index.open_index(path) as runs:
        assert runs.find("") == []
        runs.put(record("a"))
    with index.open_index(path) as runs:
        assert runs.find("") == ["a"]


def test_an_index_that_was_damaged_since_the_last_restart_is_an_error_once(path):
    with index.open_index(path) as runs:
        runs.put(*(record(f"run-{n}", n) for n in range(500)))
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    with (
        pytest.raises(RaiError, match="was damaged"),
        index.open_index(path) as runs,
    ):
        runs.list_runs()
    with index.open_index(path) as runs:
        assert runs.list_runs() == []


def test_a_sync_follows_the_folders_and_leaves_alone_what_another_process_put(path):
    folders = {"b": record("b", 2), "new": record("new", 3), "starting": None}

    with index.open_index(path) as runs, index.Index(path) as other:

        def read(name: str) -> RunRecord | None:
            other.put(record("new", 3, state=State.RUNNING))
            return folders[name]

        runs.put(record("a", 1), record("b", 2))
        runs.sync(0, lambda: set(folders), read)

        assert runs.find("") == ["new", "b"]
        assert [e.id for e in runs.list_runs(RunQuery(active=True))] == ["new", "b"]
        assert runs.list_runs(limit=1)[0].state is State.RUNNING


def test_names_are_listed_only_after_a_change_and_those_without_a_record_looked_at(
    path,
):
    asked: list[str] = []
    folders = {"a": record("a"), "starting": None}

    def read(name: str) -> RunRecord | None:
        asked.append(name)
        return folders[name]

    def unchanged() -> set[str]:
        raise AssertionError("no name has changed")

    with index.open_index(path) as runs:
        runs.sync(7, lambda: set(folders), read)
        assert sorted(asked) == ["a", "starting"]
        assert runs.unfinished() == {"a", "starting"}
        runs.put(record("a", state=State.DONE))
        folders["starting"] = record("starting", 2)
        runs.sync(7, unchanged, read)
        assert asked[2:] == ["starting"]
        assert runs.unfinished() == {"starting"}
        runs.sync(7, unchanged, read)
        assert asked[3:] == []
        folders["new"] = record("new", 3)
        runs.sync(8, lambda: set(folders), read)
        assert runs.find("") == ["new", "starting", "a"]


def test_what_was_removed_from_the_index_is_looked_for_again(path):
    with index.open_index(path) as runs:
        runs.sync(7, lambda: {"a"}, record)
        runs.remove("a")
        runs.sync(7, lambda: {"a"}, record)
        assert runs.find("") == ["a"]


def test_a_tag_outlives_a_new_state_and_a_size_does_not(path):
    with index.open_index(path) as runs:
        runs.put(record("a"))
        runs.tag({"a": "best"})
        runs.measured({"a": 7})
        assert [(e.tag, e.size_bytes) for e in runs.list_runs()] == [("best", 7)]
        runs.put(record("a", state=State.DONE))
        assert [(e.tag, e.size_bytes) for e in runs.list_runs()] == [("best", None)]
        assert (runs.tagged("best"), runs.tagged("")) == (["a"], [])


def test_an_index_that_cannot_be_opened_is_an_error_with_its_path(path):
    path.mkdir(parents=True)
    with pytest.raises(RaiError, match=r"index\.sqlite"):
        index.open_index(path)


@contextmanager
def locked(path: Path, how: str) -> Iterator[None]:
    """Hold a lock on an index as a process does that was stopped."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute(f"BEGIN {how}")
    yield
    other.close()


def test_an_index_that_another_process_locks_is_read_and_changed_in_memory(
    path, monkeypatch
):
    monkeypatch.setattr(index, "BUSY_S", 0.1)
    with index.open_index(path) as runs:
        runs.put(record("a"), record("b"))
        runs.tag({"b": "best"})
    with locked(path, "IMMEDIATE"), index.open_index(path) as runs:
        with pytest.warns(index.IndexWarning, match="locked"):
            runs.put(record("c"))
        runs.remove("a")
        runs.sync(7, lambda: {"b", "c", "d"}, record)
        assert sorted(runs.find("")) == ["b", "c", "d"]
        assert runs.tagged("best") == ["b"]
    with index.open_index(path) as runs:
        assert sorted(runs.find("")) == ["a", "b"]


def test_an_index_that_another_process_keeps_for_itself_is_read_from_the_folders(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(index, "BUSY_S", 0.1)
    place = Home(tmp_path)
    with home.open_index(place) as runs:
        runs.put(record("a"))
    with locked(place.index, "EXCLUSIVE"):
        with pytest.warns(index.IndexWarning, match="locked"):
            runs = home.open_index(place)
        with runs:
            assert runs.find("") == []


def write_many(path: Path, who: str) -> None:
    for n in range(20):
        with index.open_index(path) as runs:
            runs.put(record(f"{who}-{n:02}"))


def test_several_processes_write_at_once_and_nothing_is_lost(path):
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=write_many, args=(path, w)) for w in "abcd"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * 4
    with index.open_index(path) as runs:
        assert len(runs.find("")) == 80


def test_importing_the_index_imports_nothing_heavy():
    heavy = "{'yaml', 'docker', 'zstandard', 'numpy', 'typer'}"
    code = f"import sys, runner.store.index; sys.exit(str({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.stderr.strip() == "set()"
