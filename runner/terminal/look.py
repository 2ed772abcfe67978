"""What a stream can show, and text on it: its width, its colours, where it wraps."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import TextIO

from msgspec import Struct

USUAL_WIDTH = 80
NARROWEST = 20


class Look(Struct, frozen=True):
    """What a stream can show; ``width`` is None where lines are never wrapped.

    ``live`` tells whether a line may be drawn again in its place.
    """

    colour: bool = False
    width: int | None = None
    live: bool = False


PLAIN = Look()


def of(stream: TextIO) -> Look:
    """Return what a stream can show now; a terminal's width may change."""
    terminal = stream.isatty()
    return look(os.environ, _width(stream) if terminal else None)


def look(environ: Mapping[str, str], width: int | None) -> Look:
    """Return what a stream can show; ``width`` is None unless it is a terminal. Pure.

    NO_COLOR goes before FORCE_COLOR. A terminal that CI offers is a log in truth.
    """
    able = width is not None and environ.get("TERM", "") not in ("", "dumb")
    force = environ.get("FORCE_COLOR", "")
    colour = able if not force else force not in ("0", "false")
    if environ.get("NO_COLOR"):
        colour = False
    ci = environ.get("CI", "").lower() not in ("", "0", "false")
    if width is not None:
        width = max(NARROWEST, width)
    return Look(colour, width, able and not ci)


def _width(stream: TextIO) -> int:
    if (columns := os.environ.get("COLUMNS", "")).isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or USUAL_WIDTH
    except (OSError, ValueError):
        return USUAL_WIDTH


class Tone(StrEnum):
    """How a text is painted, as the numbers of a terminal's own sequence.

    Only colours that can be read on light and on dark backgrounds; a yellow text
    cannot.
    """

    PLAIN = ""
    GOOD = "32"
    BAD = "1;31"
    CARE = "35"
    HEAD = "1"
    FAINT = "2"


RESET = "\x1b[0m"

_PIECE = re.compile(r"\s*\S+")
_BREAK = re.compile(r"[/,;:=._&?-](?=.)")


def painted(text: str, tone: str) -> str:
    """Return a text in a tone, or in the numbers of a terminal's colours."""
    return f"\x1b[{tone}m{text}{RESET}" if tone and text else text


def cells(text: str) -> int:
    """Return how many columns a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(map(_cells, text))


@cache
def _cells(sign: str) -> int:
    """Return 2 for a wide sign, 0 for one that joins the sign before it."""
    import unicodedata

    if unicodedata.category(sign) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(sign) in ("W", "F") else 1


def cut(text: str, width: int) -> str:
    """Return a text in one line, cut with an ellipsis if it is too wide."""
    text = " ".join(text.split())
    return text if cells(text) <= width else _head(text, width - 1) + "…"


def wrapped(text: str, width: int, *, fold: bool = True) -> list[str]:
    """Return the lines of a text, wrapped between words.

    A longer word is broken where that can be read if ``fold``, else left whole, so
    that it can be copied from a terminal that wraps it.
    """
    lines = []
    for part in text.expandtabs().split("\n"):
        line = ""
        for piece in _PIECE.findall(part):
            if line and cells(line) + cells(piece) > width:
                lines.append(line)
                line = piece.lstrip()
            else:
                line += piece
            while fold and len(line) > 1 and cells(line) > width:
                head = _broken(line, width)
                lines.append(head)
                line = line[len(head) :]
        lines.append(line)
    return lines


def _broken(line: str, width: int) -> str:
    """Return the beginning of a word that fits, up to a separator if there is one."""
    head = _head(line, width)
    ends = [found.end() for found in _BREAK.finditer(head)]
    return head[: ends[-1]] if ends and ends[-1] > width // 3 else head


def _head(text: str, width: int) -> str:
    """Return the longest beginning of a text that fits, one character at least."""
    end = min(len(text), width)
    while end > 1 and cells(text[:end]) > width:
        end -= 1
    return text[: max(end, 1)]
