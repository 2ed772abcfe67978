"""What a stream can show: colours, lines of a width, a line that is drawn again."""

from __future__ import annotations

import os
from collections.abc import Mapping
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
