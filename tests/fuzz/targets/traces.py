"""Profilers' files: what is read of one keeps to every bound, whatever it holds.

A timeline's columns are of one length, in order, and refer to what is there; sums are
finite and not negative; a file that is refused says so in a line.
"""

from __future__ import annotations

import json
import math
import sqlite3
import tempfile
from pathlib import Path

from runner.core.errors import UsageError
from runner.core.evidence import Timeline, Trace
from runner.figures import traces

MOST = 30
_NVPROF = """
PRAGMA page_size = 512;
CREATE TABLE nvprof (key TEXT PRIMARY KEY, value);
CREATE TABLE name (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE kernel (
  start INTEGER, end INTEGER, device INTEGER, context INTEGER, stream INTEGER,
  correlation INTEGER, grid_x INTEGER, grid_y INTEGER, grid_z INTEGER,
  block_x INTEGER, block_y INTEGER, block_z INTEGER, registers INTEGER,
  static_shared INTEGER, dynamic_shared INTEGER, name INTEGER);
CREATE TABLE api (
  start INTEGER, end INTEGER, thread INTEGER, correlation INTEGER, name INTEGER,
  result INTEGER);
INSERT INTO nvprof VALUES ('format', 1), ('pid', 7), ('command', 'a'), ('ended', 1);
INSERT INTO name VALUES (1, 'f(int)'), (2, 'cudaLaunchKernel');
INSERT INTO kernel VALUES (9, 20, 0, 1, 7, 1, 3, 1, 1, 64, 1, 1, 32, 0, 8, 1);
INSERT INTO kernel SELECT start + 30, end + 31, 0, 1, 7, 2, 4, 1, 1, 64, 1, 1, 32, 0, 8,
  1 FROM kernel;
INSERT INTO api VALUES (1, 8, 9, 1, 2, 0), (10, 12, 9, 2, 2, 0);
"""


def _seeds() -> tuple[bytes, ...]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "nvprof")
        base = sqlite3.connect(path)
        base.executescript(_NVPROF)
        base.commit()
        base.close()
        return (*_EVENTS, path.read_bytes())


_SPAN = {"ph": "X", "name": "f", "pid": 1, "tid": "t", "ts": 1.5, "dur": 2}
_LAUNCH = {
    **_SPAN,
    "cat": "kernel",
    "args": {
        "grid": [1, 2, 3],
        "block": [4, 5, 6],
        "shared memory": 7,
        "device": 0,
        "stream": 7,
        "correlation": 3,
        "registers per thread": 32,
    },
}
_EVENTS = (
    json.dumps([_SPAN, {**_LAUNCH, "ts": "9"}, {**_SPAN, "ph": "B"}]).encode(),
    json.dumps({"traceEvents": [_LAUNCH, {**_SPAN, "ph": "E"}], "b": [{}]}).encode(),
    b'{"deviceProperties":[{"id":0,"name":"H"}],"traceEvents":[{"ph":"X","ts":NaN}]}',
    b'[{"ph":"M","name":"process_name","pid":1,"args":{"name":"p"}}]]',
    b"\x1f\x8b\x08\0",
    b"[" * 50,
    b"SQLite format 3\0",
)
SEEDS = _seeds()


def one(data: bytes) -> None:
    """Read the bytes as a file of a profiler."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file")
        path.write_bytes(data)
        try:
            trace, timeline = traces.read(path, "file", MOST)
        except UsageError as error:
            assert len(str(error)) < 1000
            return
        _sums_are_sane(trace)
        _columns_are_whole(timeline)


def _sums_are_sane(trace: Trace) -> None:
    assert trace.spans >= sum(each.count for each in trace.totals)
    for each in (*trace.totals, *trace.launches):
        times = (each.min_s, each.max_s, each.total_s)
        assert all(math.isfinite(time) and time >= 0 for time in times)
        assert each.count > 0
        assert each.min_s <= each.max_s <= each.total_s * (1 + 1e-9)
    assert all(each.first_s >= 0 for each in trace.launches)
    assert all(len(problem) < 1000 for problem in trace.problems)


def _columns_are_whole(found: Timeline) -> None:
    count = len(found.start)
    for column in (found.lane, found.length, found.name, found.facts, found.link):
        assert len(column) == count
    order = list(zip(found.lane, found.start, strict=True))
    assert order == sorted(order)
    assert count <= max(MOST, 3 * len(found.lanes))
    assert found.left_out == sum(found.merged) - count
    assert found.notes[:1] == [()]
    for column, things in (
        (found.lane, found.lanes),
        (found.name, found.names),
        (found.facts, found.notes),
    ):
        assert all(0 <= each < len(things) for each in column)
    assert all(each >= 0 for each in (*found.start, *found.length, *found.link))
