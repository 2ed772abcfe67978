"""What a shell prints, on the terminal of the person who uses it."""

from __future__ import annotations

import pytest

from runner.terminal.own import ShellOutputFilter


def shown(*pieces: bytes) -> bytes:
    shell = ShellOutputFilter()
    return b"".join(shell.feed(piece) for piece in pieces)


@pytest.mark.parametrize(
    "data",
    [
        b"plain text\r\n\ttab \x08 bell \x07",
        "é, 漢字, 🙂".encode(),
        b"\x1b[1;38;5;208mcolour\x1b[0m\x1b[38:2::1:2:3m",
        b"\x1b[2J\x1b[H\x1b[10;20Hx\x1b[K\x1b[3A\x1b[2;20r\x1bM\x1b7\x1b8",
        b"\x1b[?1049h\x1b[?25l\x1b[?1h\x1b=\x1b[?2004h\x1b[?1006h",
        b"\x1b(0lqqk\x1b(B\x0e\x0f",
        b"\x1b[4 q\x1b[5P\x1b[2@",
    ],
)
def test_what_full_screen_programs_need_passes(data):
    assert shown(data) == data


@pytest.mark.parametrize(
    "data",
    [
        b"\x1b]0;title\x07",
        b"\x1b]52;c;ZWNobyBldmls\x1b\\",
        b"\x1b]8;;http://evil\x1b\\",
        b"\x1b]1337;File=x:AAAA\x07",
        b"\x1bP+q544e\x1b\\",
        b"\x1b_Gf=24;AAAA\x1b\\",
        b"\x1bkname\x1b\\",
        b"\x1b[6n\x1b[c\x1b[>c\x1b[=c\x1b[5n\x1b[?6n\x1b[x\x05\x1bZ",
        b"\x1b[>q\x1b[?u\x1b[>1u\x1b[?1$p\x1b[1;1;1;1;1;1*y\x1b[?4m",
        b"\x1b[21t\x1b[8;10;10t\x1b[5i\x1b[>2T",
        b"\x1b%@\x1b F\x1b#8\x1b[?3h\x1b[?1001h",
        "\x9d0;title\x07\x9b6n"[:9].encode(),
        b"\x1b]0;no end",
    ],
)
def test_what_steers_the_terminal_or_asks_it_does_not_pass(data):
    assert shown(data) == b""


def test_many_beginnings_of_strings_take_linear_time():
    many = "\x90" * 1_000_000  # hours, if each were read to the end
    assert shown(many.encode(), "\x9cx".encode()) == b"x"


def test_a_string_without_end_takes_no_memory_and_ends_at_last():
    shell = ShellOutputFilter()
    for _ in range(100):
        assert shell.feed(b"\x1b]52;c;" + b"A" * 10_000) == b""
    assert len(shell._held) < 200_000
    assert shell.feed(b"\x07and on") == b"and on"


def test_bytes_that_are_not_utf_8_are_replaced():
    assert shown(b"\x9d0;title\xff") == "\ufffd0;title\ufffd".encode()


def test_the_terminal_is_brought_back_to_what_it_usually_is():
    shell = ShellOutputFilter()
    shell.feed(b"\x1b[?1000;1006h\x1b[?25l\x1b[?1049h\x1b[?2004h\x1b[?2004l")
    back = shell.restored()
    assert back.startswith(b"\x1b[?1049l")  # it moves the cursor, so it is first
    for wanted in (b"\x1b[?1000l", b"\x1b[?1006l", b"\x1b[?25h", b"\x1b[0m"):
        assert wanted in back
    assert b"2004" not in back
    assert b"1049" not in shell.restored()


def test_a_terminal_that_was_left_alone_keeps_its_screen_and_modes():
    shell = ShellOutputFilter()
    shell.feed(b"hello\r\n")
    assert shell.at_line_start
    assert shell.restored() == b"\x1b[0m\x1b(B\x0f"


def test_margins_keypad_and_cursor_are_undone_where_they_were_changed():
    shell = ShellOutputFilter()
    shell.feed(b"\x1b[3;9r\x1b=\x1b[5 q")
    back = shell.restored()
    for wanted in (b"\x1b7\x1b[r\x1b8", b"\x1b>", b"\x1b[0 q"):
        assert wanted in back
