"""`rai logs`: which part of the output, and how it is printed."""

from __future__ import annotations

import json
import re

import pytest

from runner.cli.logs import logs
from runner.core import Machine, Reason, Stream, Verdict, events
from runner.core.errors import UsageError
from runner.store import runs
from runner.store.excerpt import Excerpt, Part
from runner.store.paths import Home

SPEC = """\
commands:
  build:
    - {run: ./first, name: tiled}
    - python m2.1.py
"""
MACHINE = Machine("h", "s", "c", 2, 1, "3", "0")
STAMP = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d "


@pytest.fixture(autouse=True)
def run(tmp_path, monkeypatch):
    """A run of two commands that ended."""
    monkeypatch.setenv("RAI_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    paths = runs.create(Home(tmp_path))
    paths.spec.write_text(SPEC)
    with runs.Recorder(paths) as recorder:
        recorder.keep(events.Created(paths.id, "/p", "f", None, MACHINE))
        for index, stream, data in (
            (0, Stream.STDOUT, b"one\nhalf "),
            (0, Stream.STDERR, b"\x1b[31merror\r\n"),
            (0, Stream.STDOUT, b"and half\n"),
            (1, Stream.STDOUT, b"\xff\x00three"),
        ):
            recorder.keep(events.Output(index, stream, data))
        verdict = Verdict(True, True, None, Reason.DONE, "")
        recorder.keep(events.Finished(verdict))


def printed(capfd, **options) -> tuple[bytes, bytes]:
    logs("latest", **options)
    out, err = capfd.readouterr()
    return out, err


def test_without_options_every_byte_is_printed(capfdbinary):
    assert printed(capfdbinary) == (
        b"one\nhalf and half\n\xff\x00three",
        b"\x1b[31merror\r\n",
    )


@pytest.mark.parametrize(
    ("lines", "out", "err"),
    [
        (0, b"", b""),
        (1, b"\xff\x00three", b""),
        (2, b"half and half\n\xff\x00three", b""),
        (3, b"half and half\n\xff\x00three", b"\x1b[31merror\r\n"),
        (99, b"one\nhalf and half\n\xff\x00three", b"\x1b[31merror\r\n"),
    ],
)
def test_the_last_lines_are_exact_too(capfdbinary, lines, out, err):
    assert printed(capfdbinary, lines=lines) == (out, err)


@pytest.mark.parametrize("word", ["1", "tiled"])
def test_a_command_is_named_by_number_or_name(capfdbinary, word):
    found = printed(capfdbinary, command=[word])

    assert found == (b"one\nhalf and half\n", b"\x1b[31merror\r\n")
    assert printed(capfdbinary, command=["m2.1"]) == (b"\xff\x00three", b"")
    assert printed(capfdbinary, command=["m2.1", word])[0].endswith(b"\xff\x00three")


def test_an_unknown_command_is_refused_with_those_there_are():
    with pytest.raises(UsageError) as caught:
        logs("latest", command=["3"])

    first, second = (str(problem) for problem in caught.value.problems)
    assert first == "--command 3: no such command"
    assert "1 tiled; 2 python m2.1.py" in second


def test_each_line_has_the_time_at_which_it_began(capfdbinary):
    out, err = printed(capfdbinary, timestamps=True)

    lines = [b"one\n", b"half and half\n", re.escape(b"\xff\x00three")]
    assert re.fullmatch(b"".join(STAMP + line for line in lines), out)
    assert re.fullmatch(STAMP + rb"\x1b\[31merror\r\n", err)


def test_what_is_older_is_left_out(capfdbinary):
    assert printed(capfdbinary, since="1h") == printed(capfdbinary)
    assert printed(capfdbinary, since="0s") == (b"", b"")


def test_what_is_no_time_is_refused():
    with pytest.raises(UsageError, match="--since 'soon' is not a time: `5m`"):
        logs("latest", since="soon")


def test_all_options_work_together(capfdbinary):
    options = {"lines": 2, "since": "1h", "command": ["1"], "timestamps": True}
    out, err = printed(capfdbinary, **options, follow=True)

    assert re.fullmatch(STAMP + b"half and half\n", out)
    assert re.fullmatch(STAMP + rb"\x1b\[31merror\r\n", err)


def test_events_are_counted_and_chosen_alike(capfdbinary):
    out, _ = printed(capfdbinary, lines=1, command=["2"], as_json=True)

    (line,) = out.splitlines()
    assert json.loads(line)["length"] == 7


@pytest.fixture
def repeated(tmp_path):
    """A run whose first command was repeated, and that goes on."""
    paths = runs.create(Home(tmp_path))
    paths.spec.write_text(SPEC)
    with runs.Recorder(paths) as recorder:
        recorder.keep(events.Created(paths.id, "/p", "f", None, MACHINE))
        for index, repeats, number in ((0, None, 0), (1, None, 0), (2, 0, 1)):
            started = events.CommandStarted(index, "x", None, repeats, number)
            recorder.keep(started)
            data = f"{index} in {number}\n".encode()
            recorder.keep(events.Output(index, Stream.STDOUT, data))
        yield paths, recorder


@pytest.mark.parametrize(
    ("options", "out"),
    [
        ({}, b"0 in 0\n1 in 0\n2 in 1\n"),
        ({"command": ["tiled"]}, b"0 in 0\n2 in 1\n"),
        ({"command": ["tiled"], "lines": 1}, b"2 in 1\n"),
        ({"command": ["2"]}, b"1 in 0\n"),
    ],
)
def test_a_repeat_belongs_to_its_command(repeated, capfdbinary, options, out):
    assert printed(capfdbinary, **options) == (out, b"")


def test_a_repeat_that_begins_while_one_reads_is_followed_too(repeated):
    paths, recorder = repeated
    excerpt = Excerpt(paths, Part(commands=frozenset({0}), lines=1))
    assert [piece.data for piece in excerpt.pieces()] == [b"2 in 1\n"]
    recorder.keep(events.CommandStarted(3, "x", None, 0, 2))
    recorder.keep(events.Output(3, Stream.STDOUT, b"3 in 2\n"))
    recorder.keep(events.CommandStarted(4, "x", None, 1, 2))
    recorder.keep(events.Output(4, Stream.STDOUT, b"4 in 2\n"))
    assert [piece.data for piece in excerpt.pieces()] == [b"3 in 2\n"]
