"""What `rai history` chooses, in which order, and in which form."""

from __future__ import annotations

import csv
import io
import json
import os
import time
from pathlib import Path

import pytest

from runner.cli import choosing, common, listing, note, show
from runner.core import (
    CommandRecord,
    EngineFacts,
    Findings,
    GitState,
    Inference,
    Outcome,
    Reason,
    RunRecord,
    State,
    Verdict,
    record,
)
from runner.core.errors import UsageError
from runner.markup.listed_rows import HEADER, table
from runner.report.run import Listed, history
from runner.store import index, notes
from runner.store.home import find, open_index, set_note, set_tag
from runner.store.paths import Home
from runner.store.query import RunOrder, RunQuery

NOTHING = dict.fromkeys(("project", "branch", "tag", "since", "until", "command"))
FORM = choosing.HistoryForm("when", False, None, False, False, None)


def ended(name: str, at: float = 1.0, **more: object) -> RunRecord:
    reason = more.pop("reason", Reason.DONE)
    assert isinstance(reason, Reason)
    took = more.pop("took", 1.0)
    assert isinstance(took, float)
    facts: dict[str, object] = {
        "verdict": Verdict(True, True, None, reason),
        "state": State.DONE,
        "engine": EngineFacts("local"),
    }
    run = RunRecord(name, "/home/me/Conv", "rai_build.yml", at, ended_at=at + took)
    return type(run)(
        **{n: getattr(run, n) for n in run.__struct_fields__} | facts | more
    )


def command(text: str = "python m3.1.py", *times: float) -> CommandRecord:
    found = Findings((Inference(times, 0.84),)) if times else Findings()
    return CommandRecord(0, text, None, Outcome.OK, findings=found)


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
        (RunQuery(project_word="home"), ""),
        (RunQuery(branch="main"), "a1"),
        (RunQuery(branch="*a*"), "b2 a1"),
        (RunQuery(branch="*"), "b2 a1"),
        (RunQuery(branch="mai"), ""),
        (RunQuery(branch="[m]ain"), ""),
        (RunQuery(tag="best"), "c3"),
        (RunQuery(tag="be??"), "c3"),
        (RunQuery(tag="*"), "c3"),
        (RunQuery(reasons=frozenset({Reason.TIME_LIMIT})), "c3"),
        (RunQuery(since=200.0, until=400.0), "c3 b2"),
        (RunQuery(command="--fast"), "e5"),
        (RunQuery(command="%"), ""),
        (RunQuery(branch="main", since=150.0), ""),
        (RunQuery(branch="' OR 1 --"), ""),
    ],
)
def test_a_query_chooses_the_runs_for_which_all_of_it_holds(query, expected, tmp_path):
    with index.open_index(tmp_path / "index.sqlite") as listed:
        listed.put(*RUNS)
        listed.tag({"c3": "best"})
        assert [one.id for one in listed.list_runs(query)] == expected.split()


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (RunOrder.WHEN, "f6 e5 d4 c3 b2 a1"),
        (RunOrder.TOOK, "b2 d4 a1 f6 e5 c3"),
        (RunOrder.OP_TIME, "e5 f6 d4 c3 b2 a1"),
        (RunOrder.SIZE, "a1 d4 f6 e5 c3 b2"),
    ],
)
def test_runs_are_sorted_and_those_without_the_figure_come_last(by, expected, tmp_path):
    ids = expected.split()
    query = RunQuery(active=False)
    with index.open_index(tmp_path / "index.sqlite") as listed:
        listed.put(*RUNS)
        listed.measured({"a1": 900, "d4": 20})
        assert [one.id for one in listed.list_runs(query, by=by)] == ids
        assert [one.id for one in listed.list_runs(query, 2, by)] == ids[:2]
        turned = [one.id for one in listed.list_runs(query, by=by, reverse=True)]
    known = {"op-time": 2, "size": 2}.get(by.value)
    first = ids[:known][::-1] if by is not RunOrder.TOOK else turned[:6]
    assert turned[: len(first)] == first
    assert sorted(turned) == sorted(ids)


def test_the_fastest_run_is_one_that_went_well(tmp_path):
    wrong = ended("w1", reason=Reason.WRONG_ANSWER, commands=(command("a", 0.01),))
    right = ended("r1", commands=(command("a", 0.5),))
    with index.open_index(tmp_path / "index.sqlite") as listed:
        listed.put(wrong, right, ended("n1"))
        for reverse in (False, True):
            found = listed.list_runs(by=RunOrder.OP_TIME, reverse=reverse)
            assert [one.id for one in found] == ["r1", "w1", "n1"]


def choose(
    form: choosing.HistoryForm = FORM, reasons: tuple[str, ...] = (), **given: str
) -> choosing.HistoryChoice:
    return choosing.chosen(NOTHING | given, reasons, form)


def test_a_project_is_a_folder_if_it_has_a_slash_and_else_a_word(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conv").mkdir()
    assert choose(project=".").query.project == str(tmp_path)
    assert choose(project="conv/").query.project == str(tmp_path / "conv")
    word = choose(project="conv").query
    assert (word.project, word.project_word) == (None, "conv")


def test_failed_is_every_reason_but_done_and_cancelled():
    reasons = choose(reasons=("failed",)).query.reasons
    assert reasons == frozenset(Reason) - {Reason.DONE, Reason.CANCELLED}
    both = choose(reasons=("time-limit", "GPU fault")).query.reasons
    assert both == {Reason.TIME_LIMIT, Reason.GPU_FAULT}


def test_every_wrong_option_is_told_at_once():
    form = choosing.HistoryForm("op_time", False, "xml", False, True, Path("a.png"))
    with pytest.raises(UsageError) as caught:
        choose(form, ("time_limits",), since="yesterday", until="", branch="")
    told = [str(problem) for problem in caught.value.problems]
    for part in (
        "--since 'yesterday' is not a time",
        "--until is empty",
        "--branch is empty",
        "--reason is 'time_limits'",
        "--sort is 'op_time'; expected one of when, took, op-time, size",
        "--format is 'xml'; expected one of table, json, csv",
        "-o a.png: a plot is drawn as SVG",
        "--plot draws a picture",
    ):
        assert any(part in one for one in told), part


@pytest.mark.parametrize(
    ("form", "told"),
    [
        (("when", False, "csv", True, False, None), "--json contradicts --format csv"),
        (
            ("when", False, None, False, False, Path("a.svg")),
            "-o is the file of a plot",
        ),
        (("took", False, None, False, True, None), "commits in the order of time"),
    ],
)
def test_options_that_contradict_are_refused(form, told):
    with pytest.raises(UsageError, match=told):
        choose(choosing.HistoryForm(*form))
    with pytest.raises(UsageError, match="no run began since 1h and before 2h"):
        choose(since="1h", until="2h")


def kept(home: Home, *runs: RunRecord) -> None:
    for one in runs:
        paths = home.run(one.id)
        paths.root.mkdir(parents=True)
        paths.record.write_bytes(record.to_json(one))


@pytest.fixture
def home(tmp_path, monkeypatch) -> Home:
    monkeypatch.setenv("RAI_HOME", str(tmp_path))
    found = Home(tmp_path)
    kept(found, *RUNS[:-1])
    return found


def listed(home: Home, query: RunQuery, *words: object, **more: bool) -> list[str]:
    return [one.record.id for one in listing.read(home, query, *words, **more)]  # type: ignore[arg-type]


def test_a_filtered_list_is_right_after_folders_were_removed_and_renamed(home):
    query = RunQuery(active=False, project_word="conv")
    assert listed(home, query, 3) == ["f6", "e5", "d4"]
    home.run("e5").record.unlink()
    home.run("e5").root.rmdir()
    home.run("f6").root.rename(home.run("abc").root)
    assert listed(home, query, 3) == ["abc", "d4", "b2"]
    home.run("d4").record.unlink()  # its folder is still there
    assert listed(home, query, 3) == ["abc", "b2", "a1"]


def test_sorting_by_size_measures_all_runs_that_are_chosen(home):
    for name, size in (("a1", 300_000), ("d4", 90_000)):
        (home.run(name).root / "build.tar.zst").write_bytes(os.urandom(size))
    query = RunQuery(active=False, project_word="conv")
    assert listed(home, query, 2, RunOrder.SIZE) == ["a1", "d4"]


def test_notes_and_tags_outlive_the_index(home):
    set_note(home, home.run("a1"), "the baseline")
    set_note(home, home.run("b2"), "gone soon")
    set_note(home, home.run("b2"), "")
    set_tag(home, home.run("a1"), "base")
    home.index.unlink()
    with open_index(home) as opened:
        shown = {one.id: (one.tag, one.note) for one in opened.list_runs()}
        assert shown["a1"] == ("base", "the baseline")
        assert shown["b2"] == ("", "")
        opened.put(RUNS[0])  # as at the end of a run
        (one,) = opened.list_runs(RunQuery(tag="base"))
        assert one.note == "the baseline"
    assert find(home, "base").id == "a1"


def test_a_note_is_one_line_of_text_and_bounded(home):
    paths = home.run("a1")
    assert notes.problem("äß " * 166) is None
    for wrong in ("", " ", "x" * 501, "a\nb", "a\x1b[2Jb", "a\u202eb", "✱ Run 1"):
        assert notes.problem(wrong) is not None, wrong
    for found in (b"\xff", b"a\x1b[2J\n", b"x" * 100_000):
        paths.note.write_bytes(found)
        assert notes.read(paths) == ""
    paths.note.unlink()
    paths.note.symlink_to("/etc/hostname")
    assert notes.read(paths) == ""


def test_the_table_has_commits_if_they_are_asked_for_and_notes_if_there_are_any():
    runs = [Listed(one, "", 0) for one in RUNS[:2]]
    plain = history(runs, 0.0)
    assert not {"branch", "commit", "note"} & set(plain.heads)
    shown = history([*runs, Listed(RUNS[2], "", 0, "hm")], 0.0, commits=True)
    rows = [dict(zip(shown.heads, row, strict=True)) for row in shown.rows]
    assert [row["branch"] for row in rows] == ["main", "try/fast", ""]
    assert [row["commit"] for row in rows] == ["cccccccc", "dddddddd", ""]
    assert [row["note"] for row in rows] == ["", "", "hm"]
    assert "branch" not in history(runs[:1], 0.0, commits=True).heads


def test_csv_is_read_back_as_it_was_and_no_cell_is_a_formula():
    odd = ended(
        "a1",
        0.0,
        project='/p/=x,"y"\nz',
        title="=HYPERLINK(1)",
        git=GitState("c" * 40, "-1+2", True),
        commands=(command("python m3.1.py", 0.25, 0.5),),
    )
    text = table([Listed(odd, "best", 4096, "@SUM(A1)")])
    assert text.endswith("\r\n")
    header, row = csv.reader(io.StringIO(text, newline=""))
    assert header == list(HEADER)
    cells = dict(zip(header, row, strict=True))
    assert cells["project"] == '/p/=x,"y"\nz'
    assert cells["submission"] == "'=HYPERLINK(1)"
    assert cells["branch"] == "'-1+2"
    assert cells["note"] == "'@SUM(A1)"
    assert cells["started"] == "1970-01-01T00:00:00Z"
    assert (cells["op_time_s"], cells["correctness"]) == ("0.75", "0.84")
    assert (cells["changed"], cells["synthetic"]) == ("true", "false")
    assert not any(cell[:1] in "=+-@\t\r" for cell in row if cell)


def test_without_runs_csv_is_its_header_and_the_table_says_which_are_missing(
    home, capsys
):
    form = choosing.HistoryForm("when", False, "csv", False, False, None)
    listing.history(choose(form, tag="nope"), 10)
    assert capsys.readouterr().out == ",".join(HEADER) + "\r\n"
    listing.history(choose(tag="nope"), 10)
    assert capsys.readouterr().out == f"{listing.NO_SUCH}\n"
    for name in ("a1", "b2", "c3", "d4", "e5", "f6"):
        home.run(name).record.unlink()
        home.run(name).root.rmdir()
    listing.history(choose(), 10)
    assert capsys.readouterr().out == f"{listing.NO_RUNS}\n"


def test_json_has_the_note_and_the_tag_of_each_run(home, capsys):
    set_note(home, home.run("f6"), "fast <b>")
    form = choosing.HistoryForm("op-time", True, None, True, False, None)
    listing.history(choose(form), 2)
    shown = json.loads(capsys.readouterr().out)
    assert [(one["id"], one["note"], one["tag"]) for one in shown] == [
        ("f6", "fast <b>", None),
        ("e5", None, None),
    ]


def test_a_day_and_a_span_bound_the_start_of_runs(home):
    kept(home, ended("abc", time.time() - 3600))
    assert listed(common.home(), choose(since="2h").query) == ["abc"]
    assert listed(home, choose(since="1970-01-02", until="30m").query) == ["abc"]
    assert listed(home, choose(until="1971-01-01").query, 1) == ["f6"]


def test_a_note_is_given_replaced_and_removed_by_the_command(home, capsys):
    note.note("a1", " the baseline ")
    note.note("a1", "the new baseline", as_json=True)
    note.note("a1", remove=True)
    note.note("a1", remove=True)
    first, *middle, removed, none = capsys.readouterr().out.splitlines()
    assert first == "Run a1 has the note: the baseline"
    assert json.loads("\n".join(middle)) == {
        "run": "a1",
        "note": "the new baseline",
        "before": "the baseline",
    }
    assert removed == "Run a1 no longer has the note: the new baseline"
    assert none == "Run a1 has no note."
    assert not home.run("a1").note.exists()
    for wrong in ({}, {"text": "x", "remove": True}, {"text": "a\nb"}, {"text": " "}):
        with pytest.raises(UsageError, match="note"):
            note.note("a1", **wrong)


def test_show_has_the_note_of_a_run(home, capsys):
    set_note(home, home.run("a1"), "the baseline")
    show.show("a1")
    assert "\nnote     the baseline\n" in capsys.readouterr().out
    show.show("a1", as_json=True)
    assert json.loads(capsys.readouterr().out)["note"] == "the baseline"
