"""Texts of others in a picture: made safe for XML, and cut to the room there is."""

from __future__ import annotations

import re

from runner.core.screen import printable
from runner.pictures.canvas import text_width

MOST = 2000
"""More characters of a text are nowhere in a picture."""

_NO_XML = re.compile("[\ufdd0-\ufdef\ufffe\uffff]")


def safe(text: str) -> str:
    """Return a text in one line, with what is not seen as its number."""
    cut = text if len(text) <= MOST else f"{text[: MOST - 1]}…"
    line = printable(" ".join(cut.split()))
    return _NO_XML.sub(lambda match: ascii(match.group())[1:-1], line)


def fitted(text: str, width: float, size: float, weight: str = "normal") -> str:
    """Return a safe text that is at most so wide, if need be without its middle."""
    text = safe(text)
    if text_width(text, size, weight) <= width:
        return text
    fits, too_many = 0, min(len(text), int(width))
    while fits + 1 < too_many:
        kept = (fits + too_many) // 2
        if text_width(_without_middle(text, kept), size, weight) <= width:
            fits = kept
        else:
            too_many = kept
    return _without_middle(text, fits)


def _without_middle(text: str, kept: int) -> str:
    last = kept // 2
    return f"{text[: kept - last]}…{text[len(text) - last :]}"


def wrapped(
    text: str, width: float, size: float, weight: str = "normal", most: int = 2
) -> list[str]:
    """Return a safe text in at most so many lines of a width, cut at its spaces."""
    rest, lines = safe(text).split(" "), list[str]()
    while rest and len(lines) < most - 1:
        fits = 1
        while fits < len(rest) and (
            text_width(" ".join(rest[: fits + 1]), size, weight) <= width
        ):
            fits += 1
        lines.append(" ".join(rest[:fits]))
        rest = rest[fits:]
    last = [" ".join(rest)] if rest else []
    return [fitted(line, width, size, weight) for line in [*lines, *last]]
