"""What the library says through the FIFO, and the environment that it gets."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nvprof import session
from nvprof.session import Ended, Started, Warned, parse_events

HERE = Path("/session")


@pytest.mark.parametrize(
    ("text", "events", "rest"),
    [
        (b"start 5 5.prof\n", [Started(5, HERE / "5.prof")], b""),
        (b"start 5 5.prof\nstart 6", [Started(5, HERE / "5.prof")], b"start 6"),
        (b"warn 5 no room\nend 5\n", [Warned(5, "no room"), Ended(5)], b""),
        (b"start x y\nstart 5\nstart 5 ../x\nhello\n\n", [], b""),
        (b"", [], b""),
    ],
)
def test_whole_lines_are_read_and_others_wait(text, events, rest):
    assert parse_events(text, HERE) == (events, rest)


@given(st.binary(max_size=80), st.integers(0, 80))
def test_how_lines_arrive_changes_nothing(text, cut):
    first, rest = parse_events(text[:cut], HERE)
    second, left = parse_events(rest + text[cut:], HERE)
    assert (first + second, left) == parse_events(text, HERE)


def test_no_core_of_nvprof_itself_is_left(monkeypatch):
    done, number = [], signal.SIGQUIT
    monkeypatch.setattr(resource, "setrlimit", lambda *words: done.append(words))
    monkeypatch.setattr(os, "kill", lambda *words: done.append(words))
    before = signal.getsignal(number)
    try:
        assert session.end_as(-number) == 128 + number
    finally:
        signal.signal(number, before)
    assert done == [(resource.RLIMIT_CORE, (0, 0)), (os.getpid(), number)]
