"""A timeline that can be zoomed and searched: part of a page, or a page of its own.

``packing`` turns the spans into text; the scripts in ``script/`` unpack and draw it.
Names from the trace reach the page as JSON inside that text, or escaped in the table.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from markupsafe import Markup

from runner.core.trace import Timeline
from runner.pages import shell, templates
from runner.pages.shell import PageElement
from runner.pages.timeline.packing import cut, packed
from runner.report.words import brief

_HERE = Path(__file__).parent

_TITLE = 200
_HELP = (
    ("wheel, + −", "zoom"),
    ("drag, ← →, Shift and wheel", "pan"),
    ("wheel over the names, ↑ ↓", "scroll the lanes"),
    ("Shift and drag", "zoom to a range"),
    ("click, tap", "select a span"),
    ("double click, F", "zoom to a span"),
    ("Enter or Tab, with Shift back", "the next span"),
    ("L", "what it launched, or what launched it"),
    ("/, then N and Shift N", "search, next and previous match"),
    ("Home", "the whole"),
    ("Escape", "select nothing; Tab then leaves the timeline"),
)


def element(title: str, timeline: Timeline, alone: bool = False) -> PageElement:
    """Return a timeline as a part of a page; ``alone`` if it is all of the page.

    Alone it fills the window, and the wheel zooms it at once.
    """
    markup = templates.render(
        "timeline.html",
        title=cut(title, _TITLE),
        summary=summary(timeline),
        help=_HELP,
        packed=packed(timeline),
        alone=alone,
    )
    return PageElement(markup, style(), script())


def summary(timeline: Timeline) -> str:
    """Describe in a few words how much there is."""
    spans, lanes = len(timeline.start), len(set(timeline.lane))
    text = f"{spans:,} span{'s' * (spans != 1)} in {lanes:,} lane{'s' * (lanes != 1)}"
    if spans:
        end = max(map(sum, zip(timeline.start, timeline.length, strict=True)))
        text += f" over {brief((end - min(timeline.start)) / 1e9)}"
    if timeline.left_out:
        text += (
            f"; {timeline.left_out:,} more, too close together to be kept apart, were"
            " merged into these and count under the longest one's name, so that counts"
            " and sums by name are approximate (≈)"
        )
    return text


def page(title: str, timeline: Timeline) -> str:
    """Return a page of one timeline."""
    made = element(title, timeline, alone=True)
    frame = PageElement(Markup(), (_HERE / "page.css").read_text("utf-8"))
    return shell.page(cut(title, _TITLE), made.markup, [made, frame])


@cache
def style() -> str:
    """Return the style that timelines need."""
    return (_HERE / "timeline.css").read_text("utf-8")


@cache
def script() -> str:
    """Return the script that draws all timelines of a page."""
    parts = sorted((_HERE / "script").glob("*.js"), key=_place)
    body = "\n".join(part.read_text("utf-8") for part in parts)
    return f'(() => {{\n"use strict";\n{body}}})();\n'


def _place(part: Path) -> int:
    return int(part.name.partition("_")[0])


__all__ = ["element", "page", "script", "style", "summary"]
