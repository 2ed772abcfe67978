"""What `rai runs` lists, and how runs are found."""

from __future__ import annotations

import json
import os
import time

import pytest

from runner.cli import rm, runs, show
from runner.cli.tag import tag
from runner.core import (
    CommandRecord,
    EngineFacts,
    Findings,
    GitState,
    Inference,
    Reason,
    RunRecord,
    State,
    Verdict,
    events,
    record,
)
from runner.core.errors import UsageError
from runner.report.runs import Listed, table
from runner.store import run_files
from runner.store.home import RunQuery, before, find, latest, list_runs, set_tag
from runner.store.paths import Home
from runner.system.machine import describe
from tests.kit import records


def ended(
    name: str,
    at: float = 1.0,
    *,
    took: float = 1.0,
    reason: Reason = Reason.DONE,
    **more: object,
) -> RunRecord:
    facts = {
        "project": "/home/me/Conv",
        "verdict": Verdict(True, True, None, reason),
        "engine": EngineFacts("local"),
    }
    facts = {**facts, "created_at": at, "ended_at": at + took, **more}
    return records.ended(name, **facts)


def command(text: str = "python m3.1.py", *times: float) -> CommandRecord:
    found = Findings((Inference(times, 0.84),)) if times else Findings()
    return records.command(0, text, findings=found)


RUNS = [
    ended("a1", 100.0, took=5.0, git=GitState("c" * 40, "main")),
    ended("b2", 200.0, took=9.0, git=GitState("d" * 40, "try/fast"), title="m3: run"),
    ended("c3", 300.0, took=1.0, reason=Reason.TIME_LIMIT, project="/p/Other"),
    ended("d4", 400.0, took=7.0, reason=Reason.CANCELLED, project="/q/conv"),
    ended("e5", 500.0, commands=(command("make", 0.5), command("./a --fast", 0.2))),
    ended("f6", 600.0, commands=(command("python x.py", 0.1, 0.2),)),
    RunRecord("g7", "/home/me/Conv", "rai_build.yml", 700.0, State.RUNNING),
]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (RunQuery(), "g7 f6 e5 d4 c3 b2 a1"),
        (RunQuery(active=False), "f6 e5 d4 c3 b2 a1"),
        (RunQuery(project="/q/conv"), "d4"),
        (RunQuery(project="/q"), ""),
        (RunQuery(active=False, project_word="CONV"), "f6 e5 d4 b2 a1"),
        (RunQuery(project_word="m3: "), "b2"),
        (RunQuery(branch="main"), "a1"),
        (RunQuery(branch="*a*"), "b2 a1"),
        (RunQuery(branch="mai"), ""),
        (RunQuery(branch="[m]ain"), ""),
        (RunQuery(tag="best"), "c3"),
        (RunQuery(tag="be??"), "c3"),
        (RunQuery(since=400.0), "g7 f6 e5 d4"),
        (RunQuery(command="--fast"), "e5"),
        (RunQuery(command="%"), ""),
        (RunQuery(branch="main", since=150.0), ""),
    ],
)
def test_a_query_chooses_the_runs_for_which_all_of_it_holds(query, expected, home):
    set_tag(home, home.run("c3"), "best")
    assert [one.id for one in list_runs(home, query)] == expected.split()
    assert [one.id for one in list_runs(home, query, 2)] == expected.split()[:2]


@pytest.fixture
def home(tmp_path, monkeypatch) -> Home:
    monkeypatch.setenv("RAI_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    found = Home(tmp_path)
    kept(found, *RUNS)
    return found


def kept(home: Home, *runs: RunRecord) -> None:
    for one in runs:
        paths = home.run(one.id)
        paths.root.mkdir(parents=True)
        if one.ended_at is None:
            made = events.Created(one.id, one.project, one.spec_file, None, describe())
            paths.events.write_bytes(events.to_line(made, one.created_at))
        else:
            paths.record.write_bytes(record.to_json(one))
            os.utime(paths.record, (one.ended_at, one.ended_at))


def listed(home: Home, query: RunQuery, limit: int | None = None) -> list[str]:
    return [one.record.id for one in runs.read(home, query, limit)[0]]


def test_a_run_that_ended_late_stands_where_it_began(home):
    kept(home, ended("long", 50.0, took=900.0))
    found = list_runs(home, RunQuery(active=False), 2)
    assert [one.id for one in found] == ["f6", "e5"]


def test_after_the_clock_was_set_back_the_newest_is_the_one_that_ran_since(home):
    kept(home, ended("late", time.time() + 3600))
    ids = listed(home, RunQuery())
    assert (ids[0], ids[-1], len(ids)) == ("g7", "late", len(RUNS) + 1)
    assert latest(home, ended=True).id == "f6"


def test_latest_is_of_the_project_around_this_folder_if_there_is_one(
    home, tmp_path, monkeypatch
):
    inside = tmp_path / "mine" / "src"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    assert find(home, "latest").id == "g7", "no project is here"
    (tmp_path / "mine" / "rai_build.yml").touch()
    with pytest.raises(UsageError, match=f"no run of {tmp_path}/mine yet"):
        find(home, "latest")
    kept(home, ended("m1", 10.0, project=str(tmp_path / "mine")))
    assert find(home, "latest").id == "m1"


def test_a_run_is_compared_with_the_one_before_of_its_project(home):
    assert before(home, RUNS[5]).id == "e5"
    assert before(home, RUNS[4]).id == "b2"
    with pytest.raises(UsageError, match="no earlier run"):
        before(home, RUNS[0])


def test_a_run_is_named_by_the_beginning_of_its_id(home):
    kept(home, ended("ab1"), ended("ab2"))
    assert find(home, "ab1").id == "ab1"
    assert find(home, "e").id == "e5"
    with pytest.raises(UsageError, match="'ab' matches several runs: ab1, ab2"):
        find(home, "ab")
    for wrong in ("", "B", "%", "_", "g7/../e5"):
        with pytest.raises(UsageError):
            find(home, wrong)


def test_a_project_is_a_folder_if_it_has_a_slash_and_else_a_word(home, capsys):
    kept(home, ended("here", project=str(home.root)))
    runs.runs(project=".", as_json=True)
    assert [one["id"] for one in json.loads(capsys.readouterr().out)] == ["here"]
    runs.runs(project="other", as_json=True)
    assert [one["id"] for one in json.loads(capsys.readouterr().out)] == ["c3"]


def test_every_wrong_option_is_told_at_once(home):
    with pytest.raises(UsageError) as caught:
        runs.runs(since="yesterday", branch="", tag="")
    told = " ".join(str(problem) for problem in caught.value.problems)
    for part in (
        "--since 'yesterday' is not a time",
        "--branch is empty",
        "--tag is empty",
    ):
        assert part in told
    with pytest.raises(UsageError, match="a server's queue: leave out --branch"):
        runs.runs(on="https://s.example", branch="main")


def test_a_filtered_list_is_right_after_folders_were_removed_and_renamed(home):
    query = RunQuery(active=False, project_word="conv")
    assert listed(home, query, 3) == ["f6", "e5", "d4"]
    home.run("e5").record.unlink()
    home.run("e5").root.rmdir()
    home.run("f6").root.rename(home.run("abc").root)
    assert listed(home, query, 3) == ["abc", "d4", "b2"]
    home.run("d4").record.unlink()  # its folder is still there
    assert listed(home, query, 3) == ["abc", "b2", "a1"]


def test_a_run_that_cannot_be_read_is_named_and_can_be_removed(home, capsys):
    paths = home.run("e5")
    paths.record.write_bytes(b"\xff")
    paths.events.write_bytes(b"\xff\n")
    long_ago = time.time() - 3600
    for path in (paths.record, paths.events, paths.root):
        os.utime(path, (long_ago, long_ago))
    runs.runs()
    shown = capsys.readouterr()
    assert "f6" in shown.out and "e5" not in shown.out
    assert "Run e5 cannot be read: `rai rm e5` removes it." in shown.err
    rm.rm(["e5"], yes=True)
    assert not paths.root.exists()


def test_a_note_is_one_line_of_text_and_bounded(home):
    paths = home.run("a1")
    assert run_files.note_problem("äß " * 166) is None
    for wrong in ("", " ", "x" * 501, "a\nb", "a\x1b[2Jb", "a\u202eb"):
        assert run_files.note_problem(wrong) is not None, wrong
    for found in (b"\xff", b"a\x1b[2J\n", b"x" * 100_000):
        paths.note.write_bytes(found)
        assert run_files.read_note(paths) == ""
    paths.note.unlink()
    paths.note.symlink_to("/etc/hostname")
    assert run_files.read_note(paths) == ""


def test_the_table_has_commits_if_they_are_asked_for_and_notes_if_there_are_any():
    runs = [Listed(one, "", 0) for one in RUNS[:2]]
    plain = table(runs, 0.0)
    assert not {"branch", "commit", "note"} & set(plain.heads)
    shown = table([*runs, Listed(RUNS[2], "", 0, "hm")], 0.0, commits=True)
    rows = [dict(zip(shown.heads, row, strict=True)) for row in shown.rows]
    assert [row["branch"] for row in rows] == ["main", "try/fast", ""]
    assert [row["commit"] for row in rows] == ["cccccccc", "dddddddd", ""]
    assert [row["note"] for row in rows] == ["", "", "hm"]
    assert "branch" not in table(runs[:1], 0.0, commits=True).heads
    (active,) = table([Listed(RUNS[-1], "", None, away="s")], 800.0).rows
    assert "running on s" in active


def test_without_runs_the_table_says_which_are_missing(home, capsys):
    runs.runs(tag="nope")
    assert capsys.readouterr().out == f"{runs.NO_SUCH}\n"
    for one in RUNS:
        home.run(one.id).record.unlink(missing_ok=True)
        home.run(one.id).events.unlink(missing_ok=True)
        home.run(one.id).root.rmdir()
    runs.runs()
    assert capsys.readouterr().out == f"{runs.NO_RUNS}\n"


def test_json_has_the_note_and_the_tag_of_each_run(home, capsys):
    run_files.write_text(home.run("f6").note, "fast <b>")
    runs.runs(number=1, command="x.py", as_json=True)
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["id"], shown["note"], shown["tag"]) == ("f6", "fast <b>", None)


def test_a_span_bounds_the_start_of_runs(home, capsys):
    kept(home, ended("abc", time.time() - 3600))
    runs.runs(since="2h", as_json=True)
    assert [one["id"] for one in json.loads(capsys.readouterr().out)] == ["abc"]


def test_a_note_is_given_replaced_and_removed_by_the_command(home, capsys):
    tag("a1", note=" the baseline ")
    tag("a1", "base", note="the new baseline", as_json=True)
    tag("a1", note="")
    first, *middle, removed = capsys.readouterr().out.splitlines()
    assert first == "Run a1 has the note: the baseline"
    assert json.loads("\n".join(middle)) == {
        "run": "a1",
        "tag": "base",
        "before": None,
        "moved_from": [],
        "note": "the new baseline",
    }
    assert removed == "Run a1 has no note."
    assert not home.run("a1").note.exists()
    assert run_files.read_tag(home.run("a1")) == "base"
    for wrong in ({}, {"name": "x", "remove": True}, {"note": "a\nb"}):
        with pytest.raises(UsageError):
            tag("a1", **wrong)


def test_show_has_the_note_of_a_run(home, capsys):
    run_files.write_text(home.run("a1").note, "the baseline")
    show.show("a1")
    assert "\nnote     the baseline\n" in capsys.readouterr().out
    show.show("a1", as_json=True)
    assert json.loads(capsys.readouterr().out)["note"] == "the baseline"
