"""What of a program's output may reach a terminal."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core.screen import TerminalFilter, json_safe, printable, unmarked


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
        ("caf\u00e9 \u009b31m".encode(), "caf\u00e9 31m".encode()),
        (b"\xff\xfe raw", "\ufffd\ufffd raw".encode()),
        (b"a\x9b2Jb\x90c", "a\ufffd2Jb\ufffdc".encode()),
        (b"a\xc2\x00\x9b2J", "a\ufffd\ufffd2J".encode()),
        (b"a\x1b\x1b\x1b[2Jb\x1b\x1b\x1b[mc", b"ab\x1b[mc"),
        ("\u2731\u2731x".encode(), b"\\u2731\\u2731x"),
        ("txt.\u202egpj \u2066a\u2069".encode(), b"txt.\\u202egpj \\u2066a\\u2069"),
    ],
)
def test_colours_and_carriage_returns_pass_and_other_controls_do_not(written, shown):
    assert shown == TerminalFilter().feed(written)


@pytest.mark.parametrize("written", ["✱ Run done", "x\r✱ Run done", "xx\b\b✱"])
def test_no_program_shows_the_mark_of_rais_own_lines(written):
    shown = TerminalFilter().feed(written.encode()).decode()
    assert shown == written.replace("✱", r"\u2731")
    assert unmarked(written) == shown


@pytest.mark.parametrize(
    "cut", [b"\x1b[2J", b"\x07", b"\x1b]0;t\x07", b"\xc2\x80", b"\x00", b"\x0e\x00"]
)
def test_a_mark_in_pieces_is_not_joined_where_a_control_between_them_is_dropped(cut):
    mark, csi = "✱".encode(), b"\xc2\x9b"
    for whole in (mark, csi, "\u202e".encode()):
        for place in range(1, len(whole)):
            pieces = whole[:place] + cut + whole[place:]
            shown = TerminalFilter().feed(pieces + b"2J.")
            assert whole not in shown
            assert shown.endswith(b"2J.")


def test_a_mark_in_two_pieces_is_known_and_what_lies_between_two_streams_is_whole():
    out, err = TerminalFilter(), TerminalFilter()
    shown = out.feed(b"a\xe2\x9c") + err.feed(b"\xb1 ") + out.feed(b"\xb1 b")
    assert shown == "a\ufffd \\u2731 b".encode()


@given(st.binary(max_size=200))
def test_what_is_shown_is_utf8_without_controls_in_their_short_form(data):
    shown = TerminalFilter().feed(data).decode()
    assert not any("\x7f" <= char <= "\x9f" for char in shown)


@pytest.mark.parametrize(
    ("quoted", "shown"),
    [
        ("a\x1b[31mb\x07\r", r"a\x1b[31mb\x07\r"),
        ("a\x9b2J", r"a\x9b2J"),
        ("txt.\u202egpj.exe", r"txt.\u202egpj.exe"),
        ("ro\u200bot\ufeff", r"ro\u200bot\ufeff"),
        ("\U000e0041", r"\U000e0041"),
        (os.fsdecode(b"caf\xe9"), r"caf\xe9"),
        ("✱ Run done", r"\u2731 Run done"),
        ("two\r\nlines\tand café 界", "two\nlines\tand café 界"),
    ],
)
def test_what_rai_quotes_is_shown_with_its_odd_characters_escaped(quoted, shown):
    assert printable(quoted) == shown


@given(st.text(st.characters(), max_size=60))
def test_json_without_its_odd_characters_says_the_same(text):
    safe = json_safe(json.dumps([text], ensure_ascii=False))
    assert json.loads(safe) == [text]
    assert not set(safe) & {"\x7f", "\x9b", "\u202e", "\u200b", "\udc9b"}


def test_other_signs_pass():
    signs = "* ✲ ✓ ✗ ✨ ❯ • → ━ 界 é".encode()
    assert TerminalFilter().feed(signs + b"\n") == signs + b"\n"
