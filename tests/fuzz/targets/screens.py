"""What a program prints, as a terminal gets it: in a run, in a shell, in rai's lines.

Whatever the bytes and wherever they are cut, the terminal is not steered, no line looks
like rai's own, and no secret is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from runner.core import Stream
from runner.core import events as ev
from runner.core.masking import Mask
from runner.core.screen import MARK, TerminalFilter
from runner.terminal.console import own
from runner.terminal.own import ShellOutputFilter
from runner.terminal.streams import Look
from tests.fuzz.parts import Parts

SEEDS = (
    b"\0\x02\0\x04\0\x09a\x1b[2Jb\x1b]0;title\x07c\x1bP+q544e\x1b\\d\xc2\x9b31m",
    b"\0\x01\0\x03\x1b[1;32mgreen\x1b[0m 50%\r100%\b\b\x07 \xe2\x9c\xb1 Run\n",
    b"\0\x01\0\x01\xc2\0\x9b2J \xe2\x1b[0m\x9c\xb1 \x9b2J \xff\xfe \x85\x90x\x9c",
    b"\x01\x01\0\x08\x1b[?1049h\x1b[?25l\x1b[6n\x1b[c\x05\x1b[21t\x1bcx\x1b(0y",
    b"\x01\x01\0\x05\x1b]52;c;aGk=\x07\x1b]8;;http://x\x1b\\l\x1bkname\x1b\\\xc2\x9dx",
    b"\x02\x00first\nsecond \xe2\x9c\xb1 \x1b[31m long" + b" word" * 30,
    b"\x03\x02\x04abcd\x06abcabd\x02\0\x06\0\x0bxxabcdyyabcabdabcabcabd",
)
LONGEST_HELD = 4096
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_OURS = re.compile(r"\x1b\[(?:0|1|2|3[1-6]|1;3[1-6]|35)?m")


def one(data: bytes) -> None:
    """Send the bytes one of four ways to a terminal."""
    parts = Parts(data)
    (_run, _shell, _own, _masked)[parts.number(255) % 4](parts)


def _run(parts: Parts) -> None:
    pieces = parts.stream()
    whole = b"".join(pieces)
    shown = _fed(TerminalFilter(), pieces)
    if len(whole) < LONGEST_HELD:  # what is longer is not held until it ends
        assert shown == _fed(TerminalFilter(), [whole])
        again = _fed(TerminalFilter(), [shown])
        assert again == shown[: len(again)]
        assert len(again) > len(shown) - 8, "filtering again takes more away"
    text = shown.decode("utf-8", "surrogateescape")
    left = _CONTROLS.findall(_COLOUR.sub("", text))
    assert set(left) <= {"\b", "\r"}, f"controls reach the terminal: {left!r}"
    raw = re.findall("[\udc80-\udc9f]", text)
    assert not raw, f"raw controls reach the terminal: {raw!r}"
    assert not _marks(text), "a program shows rai's mark"


def _shell(parts: Parts) -> None:
    pieces = parts.stream()
    whole = b"".join(pieces)
    passing = ShellOutputFilter()
    shown = _fed(passing, pieces)
    if len(whole) < LONGEST_HELD:
        assert shown == _fed(ShellOutputFilter(), [whole])
    text = shown.decode()  # always whole characters
    assert not _marks(text), "a program shows rai's mark"
    for sequence in _sequences(text):
        assert _may_pass(sequence), f"{sequence!r} reaches the terminal"
    restored = passing.restored().decode()
    assert all(map(_may_pass, _sequences(restored)))


def _own(parts: Parts) -> None:
    width = parts.one_of((None, 20, 80, 200))
    colour = parts.one_of(("", "red", "yellow"))
    painted = parts.number(1) == 1
    text = parts.rest()[:2000].decode("utf-8", "replace")
    look = Look(width=width, colour=painted, live=False)
    lines = own(text, colour, look).split("\n")
    assert lines.pop() == ""
    first, *rest = [_OURS.sub("", line) for line in lines]
    assert first.startswith(f"{MARK} ")
    assert all(line.startswith("  ") for line in rest)
    for line in (first[len(MARK) :], *rest):
        assert not _marks(line)
        assert not _CONTROLS.search(line)


def _masked(parts: Parts) -> None:
    values = [
        parts.text(12).replace(b"*", b"+").decode("latin-1")
        for _ in range(parts.number(3))
    ]
    pieces = parts.stream()
    mask = Mask(values)
    shown = _after(mask, pieces)
    assert shown == _after(mask, [b"".join(pieces)])
    for secret in mask.secrets:
        assert secret not in shown, "a secret is shown"


def _fed(passing: TerminalFilter | ShellOutputFilter, pieces: list[bytes]) -> bytes:
    return b"".join(map(passing.feed, pieces))


def _after(mask: Mask, pieces: list[bytes]) -> bytes:
    def told() -> Iterator[ev.Event]:
        for piece in pieces:
            yield ev.Output(0, Stream.STDOUT, piece)
        yield ev.CommandFinished(0, 0, 0.1)

    found = mask.follow(told())
    return b"".join(event.data for event in found if isinstance(event, ev.Output))


def _marks(text: str) -> list[str]:
    """Return rai's marks in a text, and what reverses it."""
    return re.findall(f"[{MARK}\u202a-\u202e\u2066-\u2069]", text)


def _sequences(text: str) -> Iterator[str]:
    """Yield what a terminal does not print of a text, as it would read it."""
    at = 0
    while at < len(text):
        char = text[at]
        if char == "\x1b":
            end = _escape_end(text, at + 1)
            yield text[at:end]
            at = end
        else:
            if char < " " or "\x7f" <= char <= "\x9f":
                yield char
            at += 1


def _escape_end(text: str, at: int) -> int:
    """Return where an escape sequence ends, whose second character is at ``at``."""
    if text[at : at + 1] == "[":
        at += 1
        while at < len(text) and not "@" <= text[at] <= "~":
            at += 1
    else:
        while at < len(text) and " " <= text[at] <= "/":
            at += 1
    return at + 1


def _may_pass(sequence: str) -> bool:
    """Whether a sequence only draws, by the standards of terminals.

    Not: strings (title, clipboard, links, pictures), reports that the terminal answers
    by typing, the window, the printer, and modes that are not of the screen's text.
    """
    if len(sequence) == 1:
        return sequence in "\a\b\t\n\r\x0e\x0f\f"
    if sequence[1] != "[":
        return sequence[1] in "78DEHMc=>" or sequence[1] in "()*+"
    body, last = sequence[2:-1], sequence[-1]
    if _CONTROLS.search(body):
        return False
    if last in "hl":
        return True
    if last in "@ABCDEFGHIJKLMPSTXZ`abdefgmrsu":
        return not body.strip("0123456789;:") or (last in "JK" and body[0] == "?")
    return (body, last) in (("!", "p"),) or (last == "q" and body[-1:] == " ")
