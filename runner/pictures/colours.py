"""Colours for light and dark, and what tells series apart without them. Pure."""

from __future__ import annotations

from msgspec import Struct


class Ink(Struct, frozen=True):
    """A colour of pictures: its name, and how it looks on light and dark."""

    name: str
    light: str
    dark: str


TEXT = Ink("text", "#1b2027", "#e4e8ec")
FAINT = Ink("faint", "#545e69", "#a3adb8")
GRID = Ink("grid", "#dce1e7", "#343b43")
PAPER = Ink("paper", "#ffffff", "#15181c")

SERIES = (
    Ink("a", "#0072b2", "#56b4e9"),
    Ink("b", "#d47a10", "#f2914a"),
    Ink("c", "#0b4531", "#e6fff8"),
    Ink("d", "#eb0e72", "#c70369"),
    Ink("e", "#655903", "#dfbe2c"),
    Ink("f", "#7135f9", "#7d55f7"),
    Ink("g", "#899199", "#aab0b6"),
    Ink("h", "#490301", "#96651d"),
)
"""Each can be told from each other with any kind of colour blindness."""

HATCHES = ("", "////", "\\\\\\\\", "xxxx", "||||", "----", "++++", "//")
DASHES: tuple[tuple[float, tuple[float, ...]], ...] = (
    (0, ()),
    (0, (5, 2.5)),
    (0, (1.2, 1.8)),
    (0, (7, 2, 1.5, 2)),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")
"""With the colours, so that no two series look alike to anybody."""

INKS = (TEXT, FAINT, GRID, PAPER, *SERIES)
NAMED = {ink.light: ink.name for ink in INKS}


def _rules() -> str:
    return "".join(
        f".rai-picture .{kind}-{ink.name}{{{paint}:light-dark({ink.light},{ink.dark})}}"
        for ink in INKS
        for kind, paint in (("f", "fill"), ("s", "stroke"))
    )


STYLE = (
    ".rai-picture{max-width:100%;height:auto}"
    ".rai-picture:root{color-scheme:light dark}"
    f"@media print{{.rai-picture:root{{color-scheme:light}}}}{_rules()}"
)
"""The style of each picture.

Within a page it follows the page's scheme, in a file of its own the reader's. The light
colours are attributes too, for what knows no styles, or not these.
"""


def ink(number: int) -> Ink:
    """Return the colour of a series."""
    return SERIES[number % len(SERIES)]
