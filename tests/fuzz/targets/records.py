"""A run's folder that is damaged, or was never rai's: read, listed and shown.

Whatever events.jsonl and record.json say there is a record or none, and what is shown
of it does not steer the terminal.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from runner.core import record
from runner.report import runs as run_tables
from runner.store import runs
from runner.store.paths import RunPaths
from runner.terminal.layout import lines
from runner.terminal.streams import Look
from tests.fuzz.parts import Parts

RUN = Path(__file__).parents[2] / "data/run"
LINES = (RUN / "events.jsonl").read_bytes().splitlines(keepends=True)
RECORD = (RUN / "record.json").read_bytes()
VALUES = (
    *(b"-1", b"0", b"1e999", b"1e300", b"9" * 30, b"9" * 18, b"null", b"true", b"[]"),
    *(b"{}", b'"\\u001b[2J\\u009b"', b'"\\ud800"'),
    *(b'"docker"', b'"done"', b'"running"'),
)
VALUE = re.compile(rb"(?<=:) ?(?:\"[^\"]*\"|[-0-9.e+]+|null|true|false)")
SEEDS = (
    bytes([0, 31, *(n for line in range(31) for n in (line, 0))]),
    bytes([0, 3, 0, 0, 5, 5, 200, 3, 9, 2, 9, 1, 11, 0]),
    bytes([1, 0]),
    bytes([1, 3, 80, 3, 10, 2, 200, 0]),
    b"\2" + LINES[0] + LINES[-1],
)
WIDTHS = (None, 40, 80)
_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def one(data: bytes) -> None:
    """Read a run's folder, of events or of a record, with some bytes replaced."""
    parts = Parts(data)
    shape = parts.number(255) % 3
    with tempfile.TemporaryDirectory(prefix="rai-fuzz-") as made:
        paths = RunPaths(Path(made))
        if shape == 1:
            paths.record.write_bytes(_changed(parts, RECORD, parts.number(7)))
        else:
            paths.events.write_bytes(_lines(parts) if shape == 0 else parts.rest())
        found = runs.read(paths)
    if found is None:
        return
    assert record.from_json(record.to_json(found)) == found
    for width in WIDTHS:
        for block in run_tables.of(found, "tag", ""):
            for line in lines(block, Look(width=width)):
                assert not _STEERING.search(line)
        for line in lines(
            run_tables.table([run_tables.Listed(found, "", 0)], 0.0), Look(width=width)
        ):
            assert not _STEERING.search(line)


def _lines(parts: Parts) -> bytes:
    made = b""
    for _ in range(parts.number(31)):
        line = parts.one_of(LINES)
        made += _changed(parts, line, parts.number(255) % 4)
    return made


def _changed(parts: Parts, line: bytes, times: int) -> bytes:
    """Return a line with some of its values replaced."""
    for _ in range(times):
        places = list(VALUE.finditer(line))
        if not places:
            break
        place = places[parts.number(0xFFFF) % len(places)]
        value = parts.one_of((*VALUES, b'"' + parts.text(20) + b'"'))
        line = line[: place.start()] + value + line[place.end() :]
    return line
