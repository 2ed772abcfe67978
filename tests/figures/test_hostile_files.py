"""Crafted SQLite files are read within bounds, or told what is wrong with them."""

from __future__ import annotations

import os
import sqlite3

import pytest
from nvprof import store

from image.nvprof.tests import recording
from runner.core.errors import UsageError
from runner.core.evidence import LaneKind
from runner.figures import traces
from runner.figures.traces import database, spans, sums
from tests.figures.test_nvprof_file import stored
from tests.kit import traces as made

SCHEMA = store.TABLES + "INSERT INTO nvprof VALUES ('format', 1), ('ended', 1);"
LAUNCH = "start end device context stream correlation name"


@pytest.fixture
def crafted(tmp_path):
    """Change a small recording's file by SQL."""

    def change(sql):
        path = stored(tmp_path, recording.small(trace=True))
        base = sqlite3.connect(path)
        base.executescript(sql)
        base.commit()
        base.close()
        return path

    return change


def kernels(path, *rows):
    return made.database(
        path, SCHEMA, kernel=(LAUNCH, *rows), name=("id text", (1, "f"))
    )


@pytest.mark.parametrize(
    "source",
    [
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r)"
        " SELECT n AS start, n + 1 AS end, n AS name, n AS thread, n AS correlation,"
        " n AS result FROM r",
        "SELECT * FROM memcpy, memset",
    ],
)
def test_a_view_in_place_of_a_table_is_not_read(crafted, source):
    path = crafted(f"DROP TABLE api; CREATE VIEW api AS {source}")
    with pytest.raises(UsageError, match="no profiler wrote"):
        traces.read(path, "x")


def test_computed_columns_are_not_read(crafted):
    path = crafted(
        "DROP TABLE memset; CREATE TABLE memset (start, end, bytes, device, context,"
        " stream, correlation, name AS (zeroblob(1 << 28)), value)"
    )
    trace, _ = traces.read(path, "x")
    assert trace.problems == ("table memset cannot be used: it is no plain table",)
    assert trace.spans == 8


def test_triggers_and_indices_of_the_file_are_not_carried_out(crafted):
    path = crafted(
        "CREATE TRIGGER t AFTER INSERT ON kernel BEGIN DELETE FROM api; END;"
        "CREATE INDEX i ON kernel (abs(start)) WHERE abs(start) > 0;"
    )
    before = path.read_bytes()
    trace, timeline = traces.read(path, "x")
    assert (trace.spans, len(timeline.start)) == (9, 9)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "times",
    [
        (-1, 5),
        (10, 5),
        (1 << 62, (1 << 62) + 5),
        (5, (1 << 63) - 1),
        ("5", "x"),
        (None, 3),
        (float("inf"), float("inf")),
        (3, float("nan")),
        (b"\0" * 9, 3),
        (-(1 << 63), (1 << 63) - 1),
    ],
)
def test_times_that_cannot_be_are_left_out_and_counted(tmp_path, times):
    good = (100, 200, 0, 1, 7, 1, 1)
    path = kernels(tmp_path / "a", good, (*times, 0, 1, 7, 2, 1))
    trace, timeline = traces.read(path, "x")
    assert trace.problems == (
        "1 records of table kernel with impossible times are left out",
    )
    assert [(each.count, each.total_s) for each in trace.totals] == [(1, 1e-07)]
    assert (list(timeline.start), list(timeline.length)) == ([0], [100])


@pytest.mark.parametrize(
    "values",
    [
        (1 << 62, -(1 << 62), 1 << 62, 1 << 62, 1 << 62),
        ("x" * 1000, b"y", None, "z", "name"),
        (1.5, float("inf"), -0.5, 2.5, 1.0),
        (None, None, None, None, None),
    ],
)
def test_numbers_of_other_types_and_sizes_are_shown_somehow(tmp_path, values):
    path = kernels(tmp_path / "a", (1, 5, *values), (10, 11, 0, 1, 7, 1, 1))
    trace, timeline = traces.read(path, "x")
    assert trace.spans == 2
    assert len(timeline.start) == 2
    assert all(len(lane.title) < 100 for lane in timeline.lanes)


def test_times_that_are_texts_are_left_out_and_counted(tmp_path):
    """A column of texts compares numbers as texts, too."""
    odd = SCHEMA.replace("start INTEGER, end INTEGER", "start TEXT, end TEXT")
    times = (("1e999", "1e999"), ("1", "1e999"), ("10", "9"), ("1", "2"))
    rows = [(*each, 0, 1, 7, n, 1) for n, each in enumerate(times)]
    path = made.database(
        tmp_path / "f", odd, kernel=(LAUNCH, *rows), name=("id text", (1, "f"))
    )

    for read in (traces.summary, lambda *given: traces.read(*given)[0]):
        trace = read(path, "x")
        assert trace.launches == ()
        assert "4 records of table kernel with impossible times" in trace.problems[0]


def test_many_devices_of_one_number_are_little_work(tmp_path):
    gpus = [(n % 2, f"{n}" * 1000, 132, 9, 0) for n in range(3000)]
    devices = [(n % 2, 0) for n in range(3000)]
    path = made.database(
        tmp_path / "f",
        made.NSYS,
        TARGET_INFO_GPU=("id name smCount computeMajor computeMinor", *gpus),
        TARGET_INFO_CUDA_DEVICE=("gpuId cudaId", *devices, (1, None)),
    )

    trace = traces.summary(path, "x")

    (only,) = trace.gpus
    assert (only.number, only.capability, len(only.name)) == (0, "9.0", 200)
    assert not any("damaged" in problem for problem in trace.problems)


def test_a_name_of_many_megabytes_is_not_read(tmp_path):
    path = made.database(
        tmp_path / "a",
        SCHEMA,
        kernel=(LAUNCH, (1, 5, 0, 1, 7, 1, 1), (6, 7, 0, 1, 7, 2, 2)),
        name=("id text", (1, "x" * (4 << 20)), (2, "f")),
    )
    trace, timeline = traces.read(path, "x")
    assert {each.name for each in trace.totals} == {"name 1", "f"}
    assert [each.partition(":")[0] for each in trace.problems] == [
        "1 names cannot be read",
    ]
    assert max(map(len, timeline.names)) < 10_000


def test_a_long_name_is_cut(tmp_path):
    path = made.database(
        tmp_path / "a",
        SCHEMA,
        kernel=(LAUNCH, (1, 5, 0, 1, 7, 1, 1)),
        name=("id text", (1, "x" * 100_000)),
    )
    (launch,) = traces.summary(path, "x").launches
    assert len(launch.kernel) == 4096


def test_more_work_than_is_allowed_ends_with_what_was_read(tmp_path, monkeypatch):
    rows = [(n, n + 1, 0, 1, 7, n, 1) for n in range(5000)]
    path = kernels(tmp_path / "a", *rows)
    monkeypatch.setattr(database, "STEP", 1000)
    monkeypatch.setattr(database, "MOST_STEPS", 20)
    trace = traces.summary(path, "x")
    assert any("interrupted" in each for each in trace.problems)


def test_many_small_queries_are_much_work_too(tmp_path, monkeypatch):
    count = 300
    path = made.database(
        tmp_path / "a",
        SCHEMA.replace("id INTEGER PRIMARY KEY, text", "id INTEGER, text"),
        api=("start end thread name", *((n, n + 1, 1, n) for n in range(count))),
        name=("id text", *((n, f"f{n}") for n in reversed(range(count)))),
    )
    monkeypatch.setattr(database, "STEP", 10_000)
    monkeypatch.setattr(database, "LEAST_STEPS", 5)
    monkeypatch.setattr(database, "STEPS_A_MIB", 0)
    trace, timeline = traces.read(path, "x")
    assert any("names cannot be read: interrupted" in each for each in trace.problems)
    found = [each for each in timeline.names if each.startswith("f")]
    assert len(found) < count / 2


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("(start, end, {}, rowid)", "cannot be used: it is no plain table"),
        ("(start, end, {}, OID)", "cannot be used: it is no plain table"),
        ("(start PRIMARY KEY, end, {}) WITHOUT ROWID", "no such column: rowid"),
    ],
)
def test_rows_without_numbers_are_told_of(crafted, table, said):
    rest = "bytes, device, context, stream, correlation, name, value"
    path = crafted(
        f"DROP TABLE memset; CREATE TABLE memset {table.format(rest)};"
        "INSERT INTO memset (start, end) VALUES (1, 2);"
    )
    trace, timeline = traces.read(path, "x")
    (problem,) = trace.problems
    assert problem.startswith("table memset")
    assert problem.endswith(said)
    assert len(timeline.start) == 8


def test_a_row_whose_number_is_past_all_others_is_not_drawn(tmp_path):
    path = kernels(tmp_path / "a", (1, 5, 0, 1, 7, 1, 1), (6, 7, 0, 1, 7, 1, 1))
    base = sqlite3.connect(path)
    base.execute(f"UPDATE kernel SET rowid = {(1 << 63) - 1} WHERE start = 6")
    base.commit()
    base.close()
    trace, timeline = traces.read(path, "x")
    assert trace.totals[0].count == 2
    assert list(timeline.start) == [0]


@pytest.mark.parametrize("own", [True, False])
def test_very_long_names_share_a_sum_beyond_a_limit(tmp_path, monkeypatch, own):
    monkeypatch.setattr("runner.figures.traces.sqlite.MOST_TEXT", 10_000)
    names = [(n, f"{n:03}" + "x" * 997) for n in range(100)]
    columns = "name INTEGER REFERENCES name, result INTEGER"
    path = made.database(
        tmp_path / "a",
        SCHEMA.replace(columns, "name, result INTEGER"),
        api=(
            "start end thread name",
            *((n, n + 1, 1, text if own else n) for n, text in names),
        ),
        name=("id text", *names),
    )
    trace = traces.summary(path, "x")
    assert len(trace.totals) == 12
    assert trace.totals[0].count == 89
    assert trace.problems[-1].endswith("the others are summed up as one")


def test_streams_beyond_a_limit_share_a_lane(tmp_path, monkeypatch):
    monkeypatch.setattr(spans, "MOST_LANES", 10)
    rows = [(10 * n, 10 * n + 5, 0, 1, n, n, 1) for n in range(100)]
    timeline = traces.timeline(kernels(tmp_path / "a", *rows))
    assert len(timeline.lanes) == 11
    assert timeline.lanes[10].title == "all other streams and threads"
    assert sum(lane == 10 for lane in timeline.lane) == 90


def test_spans_beyond_a_limit_are_left_out_and_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(spans, "MOST_SPANS", 30)
    path = kernels(tmp_path / "a", *((n, n + 1, 0, 1, 7, n, 1) for n in range(100)))
    trace, timeline = traces.read(path, "x")
    assert (len(timeline.start), timeline.left_out) == (30, 70)
    assert trace.totals[0].count == 100
    assert trace.problems == ("a timeline shows the first 30 of its 100 spans",)


def test_configurations_beyond_a_limit_are_left_out_and_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(sums, "MOST_LAUNCHES", 3)
    rows = [(10 * n, 10 * n + n % 7, n % 9, 1, 7, n, 1) for n in range(50)]
    trace = traces.summary(kernels(tmp_path / "a", *rows), "x")
    assert len(trace.launches) == 3
    assert trace.problems[0].startswith("of 9 configurations of launches")
    assert trace.totals[0].count == 50


def test_equal_streams_of_two_contexts_are_told_apart(tmp_path):
    path = kernels(tmp_path / "a", (1, 2, 0, 1, 7, 1, 1), (3, 4, 0, 2, 7, 2, 1))
    assert [lane.title for lane in traces.timeline(path).lanes] == [
        *("GPU 0, context 1, stream 7", "GPU 0, context 2, stream 7"),
    ]


@pytest.mark.parametrize("place", [16, 100, 3000, 4096])
def test_a_damaged_file_is_told_or_read_in_part(crafted, place):
    path = crafted("")
    data = path.read_bytes()
    after = b"" if place == 3000 else b"\xff" * 600 + data[place + 600 :]
    path.write_bytes(data[:place] + after)
    try:
        trace, _ = traces.read(path, "x")
    except UsageError as error:
        assert str(error).startswith("x: it is")
    else:
        assert trace.problems


def test_an_error_that_quotes_what_is_no_text_is_told(crafted):
    path = crafted("")
    data = path.read_bytes().replace(b"tableapiapi", b"table" + b"\xff" * 6)
    path.write_bytes(data.replace(b"CREATE TABLE api", b"CREATE TABLX api"))
    with pytest.raises(UsageError, match="x: it is damaged: its schema is no text"):
        traces.summary(path, "x")


def test_lanes_have_their_kinds_whatever_the_process_is_called(crafted):
    path = crafted("UPDATE nvprof SET value = x'ff00' WHERE key IN ('pid', 'command')")
    timeline = traces.timeline(path)
    assert [lane.kind for lane in timeline.lanes] == [LaneKind.GPU, LaneKind.API]


def test_a_process_without_a_number_has_its_command_as_its_name(crafted):
    path = crafted(
        "DELETE FROM nvprof WHERE key IN ('pid', 'command');"
        "INSERT INTO nvprof VALUES ('command', './x')"
    )
    assert {lane.process for lane in traces.timeline(path).lanes} == {"./x"}


@pytest.mark.parametrize("kind", ["folder", "pipe", "nothing"])
def test_what_is_no_file_is_told(tmp_path, kind):
    path = tmp_path / "a"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(UsageError, match="a: it cannot be read"):
        traces.summary(path, "a")
