"""What of a program's output may reach a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core.screen import TerminalFilter


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"plain\ttext\r\n", b"plain\ttext\r\n"),
        (b"\x1b[1;32mgreen\x1b[0m", b"\x1b[1;32mgreen\x1b[0m"),
        (b"50%\r100%\b\b", b"50%\r100%\b\b"),
        (b"a\x1b[2Jb", b"ab"),
        (b"a\x1b]0;title\x07b", b"ab"),
        (b"a\x1b]8;;http://x\x1b\\link", b"alink"),
        (b"a\x1bP+q544e\x1b\\b", b"ab"),
        (b"a\x1bcb", b"ab"),
        (b"bell\x07", b"bell"),
        ("caf\u00e9 \u2731 \u009b31m".encode(), "caf\u00e9 \u2731 31m".encode()),
        (b"\xff\xfe raw", b"\xff\xfe raw"),
    ],
)
def test_colours_and_carriage_returns_pass_and_other_controls_do_not(written, shown):
    assert shown == TerminalFilter().feed(written)


@given(st.binary(max_size=60), st.integers(0, 60))
def test_a_cut_anywhere_changes_nothing_that_is_shown(data, cut):
    data += b"."  # ends what is open, so that nothing stays held
    whole, parts = TerminalFilter(), TerminalFilter()
    first = parts.feed(data[:cut]) + parts.feed(data[cut:])
    assert whole.feed(data) + whole.feed(b".") == first + parts.feed(b".")


@given(st.binary(max_size=200))
def test_no_escape_but_a_colour_is_ever_shown(data):
    shown = TerminalFilter().feed(data)
    colours = shown.split(b"\x1b")[1:]
    assert all(part[:1] == b"[" and b"m" in part for part in colours)
