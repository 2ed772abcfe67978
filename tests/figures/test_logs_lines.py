"""Bytes become lines without escapes; a return begins a line anew."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.figures.scanner import LINE_LIMIT, LineReader

PIECES = st.sampled_from(
    (
        *(b"Op Time: 1", b"\r", b"\n", b"\b", b"\x1b[31m", b"\x1b[K", b"\x1b]0;t\x07"),
        *(b"\x1b", b"\x1b[", b"\x1b]", b"\xe2\x9c\xb1", b"\xe2", b"\xff", b"\x7f"),
        *(b"5", b"\t", b";"),
    )
)


def read(*pieces: bytes) -> list[str]:
    reader = LineReader()
    found = b"".join([*map(reader.feed, pieces), reader.finish()])
    return found.decode(errors="replace").removesuffix("\n").split("\n")


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"", [""]),
        (b"one\ntwo\n", ["one", "two"]),
        (b"one\n\ntwo", ["one", "", "two"]),
        (b"one\r\ntwo\r\n", ["one", "two"]),
        (b"\xef\xbb\xbfone\n", ["one"]),
        (b"\x1b[32m\xe2\x9c\xb1 Running x\x1b[0m\n", ["✱ Running x"]),
        (b"\x1b[38;5;12mblue\x1b[m", ["blue"]),
        (b"\x1b]0;a title\x07text", ["text"]),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", ["link"]),
        (b"\x1b(Btext", ["text"]),
        (b" 10%\r 50%\r100%\n", ["100%"]),
        (b"abcdef\x1b[2K\rxy\x1b[K\n", ["xy"]),
        (b"\r\r\rabc\r\rX\r\r\n", ["X"]),
        (b"abc\b\bX\x1b[3DY\n", ["abcXY"]),
        (b"real\t0m1.000s\n", ["real\t0m1.000s"]),
        (b"bad \xff byte\n", ["bad � byte"]),
        (b"cut \xe2\x9c", ["cut �"]),
        (b"nul\x00l\x7f\n", ["null"]),
        (b"never ends \x1b]0;title\nnext\n", ["never ends 0;title", "next"]),
    ],
)
def test_a_line_is_what_a_terminal_shows_in_the_end(data, shown):
    assert read(data) == shown


def test_a_long_line_takes_bounded_memory_and_the_next_one_is_whole():
    first, second = read(*[b"x" * 10_000] * 100, b"\nOp Time: 0.5\n")

    assert LINE_LIMIT <= len(first) <= 3 * LINE_LIMIT
    assert second == "Op Time: 0.5"


def test_what_returns_to_the_start_of_an_endless_line_is_still_seen():
    *_, line = read(*[b"x" * 10_000] * 100, b"\r\x1b[KOp Time: 0.5")

    assert line == "Op Time: 0.5"


@given(st.lists(PIECES, max_size=40), st.integers(1, 9))
def test_how_the_bytes_were_cut_does_not_change_the_lines(pieces, size):
    data = b"".join(pieces)
    assert read(*(data[i : i + size] for i in range(0, len(data), size))) == read(data)


@given(st.binary(max_size=500))
def test_any_bytes_are_read_and_no_control_character_is_left(data):
    for line in read(data):
        assert not set(line) & {"\n", "\r", "\b", "\x1b", "\x00"}
