"""Reports and timelines as HTML: one file each, which needs no network."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import operator
from array import array
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cache
from itertools import zip_longest
from pathlib import Path

import jinja2
from markupsafe import Markup
from msgspec import Struct

from runner.core.evidence import Timeline
from runner.core.quantities import brief, size
from runner.core.screen import printable
from runner.figures.table import cut
from runner.report import pictures
from runner.report.blocks import (
    Pairs,
    Paragraph,
    Part,
    Picture,
    ProgramOutput,
    Section,
    Table,
    TimelineView,
)
from runner.report.phrases import shortened, sign

MOST_ROWS = 1000
LONGEST_CELL = 1000
LONGEST_NAME = 8000
LONG_TEXT = 32
"""A column with a longer text stays wide enough to read it."""

SHORT_NAME = 48
"""Characters of a function's name that are shown at once."""

ASSETS = Path(__file__).parent / "assets"
SCRIPTED = 'document.documentElement.classList.add("scripted");'
"""The first script of a page: what needs scripts is shown."""

MOST_TEXT = 1_000
"""No name and no value of a note is longer, in characters."""

MOST_NAMES, MOST_NOTES = 1_000_000, 4_000_000
"""Where all names, or all notes, are longer together, each is cut to its share."""

LATEST = 1 << 52
"""Times beyond are cut to it: a browser counts in numbers of 53 bits."""

_LEVEL = 6
_SHORTEST = 24
_TITLE = 200
_HELP = (
    ("wheel, + −", "zoom"),
    ("drag, ← →, Shift and wheel", "pan"),
    ("wheel over the names, ↑ ↓", "scroll the lanes"),
    ("Shift and drag", "zoom to a range"),
    ("click, tap", "select a span"),
    ("double click, F", "zoom to a span"),
    ("Enter, with Shift back", "the next span"),
    ("L", "what it launched, or what launched it"),
    ("/, then N and Shift N", "search, next and previous match"),
    ("Home", "the whole"),
    ("Escape", "select nothing"),
)


def report(
    title: str,
    sections: Sequence[Section],
    timelines: Mapping[str, Timeline],
) -> str:
    """Return the page of a report.

    ``timelines`` has the spans for the path of each TimelineView. The page says so
    where one is absent.
    """
    writer = _Writer(timelines, sections)
    body = Markup().join(writer.section(each) for each in sections)
    styles = [asset("report.css"), pictures.STYLE]
    scripts = [asset("report.js")]
    if timelines:
        style, script = timeline_assets()
        styles, scripts = [*styles, style], [*scripts, script]
    contents = render("contents.html", sections=sections)
    return page(title, body, styles, scripts, contents)


def timeline_page(title: str, timeline: Timeline) -> str:
    """Return a page of one timeline."""
    style, script = timeline_assets()
    made = timeline_element(title, timeline, alone=True)
    styles = [style, asset("timeline_page.css")]
    return page(shown(title, _TITLE), made, styles, [script])


def timeline_assets() -> tuple[str, str]:
    """Return the style that timelines need, and the script that draws all of a page."""
    parts = sorted((ASSETS / "timeline").glob("*.js"))
    body = "\n".join(part.read_text("utf-8") for part in parts)
    return asset("timeline.css"), f'(() => {{\n"use strict";\n{body}}})();\n'


def page(
    title: str,
    body: Markup,
    styles: Sequence[str],
    scripts: Sequence[str],
    contents: Markup | None = None,
) -> str:
    """Return a page with this body; ``contents`` stands above it.

    The texts of ``styles`` and ``scripts`` come after the frame's own.
    """
    used = [Markup(style) for style in (asset("base.css"), *styles)]
    run = [Markup(script) for script in (SCRIPTED, *scripts)]
    made = render(
        "shell.html",
        title=title,
        policy=policy(used, run),
        styles=used,
        first=run[0],
        scripts=run[1:],
        contents=contents or Markup(),
        body=body,
    )
    return str(made)  # text for a file, no longer markup for another template


def policy(styles: Iterable[str], scripts: Iterable[str]) -> str:
    """Return a content security policy that allows these styles and scripts only."""
    rules = {
        "default-src": "'none'",
        "script-src": " ".join(map(_hash, scripts)),
        "style-src": " ".join(map(_hash, styles)),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def asset(name: str) -> str:
    """Return a style or a script of this package."""
    return (ASSETS / name).read_text("utf-8")


def render(name: str, /, **values: object) -> Markup:
    """Return a template with these values."""
    return Markup(_environment().get_template(name).render(values))


@cache
def _environment() -> jinja2.Environment:
    made = pictures.environment(Path(__file__).parent / "templates", printable)
    made.filters["size"] = size
    return made


class _Writer:
    """Makes the markup of one section after the other."""

    def __init__(
        self, timelines: Mapping[str, Timeline], sections: Sequence[Section]
    ) -> None:
        self._timelines = timelines
        self._anchors = {section.anchor for section in sections}
        self._names: dict[str, int] = {}
        self._title = ""

    def section(self, section: Section) -> Markup:
        """Return the markup of a section, whose title names what has none."""
        self._title = section.title
        parts = [self._part(part) for part in section.parts]
        return render("section.html", section=section, parts=parts)

    def _part(self, part: Part) -> Markup:
        match part:
            case Pairs():
                return render("pairs.html", rows=_rows(part))
            case Table():
                name = self._unlike(part.title or self._title)
                return render("table.html", table=view(part, self._anchors), name=name)
            case ProgramOutput():
                name = self._unlike(part.title or self._title)
                return render("output.html", output=part, name=name)
            case Picture():
                name = self._unlike(part.chart.title)
                svg = Markup(pictures.svg(part.chart, style=""))
                return render("picture.html", picture=part, name=name, svg=svg)
            case TimelineView(path, title) if path in self._timelines:
                return timeline_element(title, self._timelines[path])
            case TimelineView(path):
                part = Paragraph(f"The timeline of {path} is not here.")
        return render("paragraph.html", part=part)

    def _unlike(self, name: str) -> str:
        """Return a name for what the page has, with a number if another has it."""
        count = self._names[name] = self._names.get(name, 0) + 1
        return f"{name} ({count})" if count > 1 else name


def _rows(pairs: Pairs) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return each name with its values; one without a name goes on with the last."""
    rows: list[tuple[str, list[tuple[str, str]]]] = []
    for name, value in pairs.rows:
        if name or not rows:
            rows.append((name, []))
        rows[-1][1].append((value, sign(name, value)))
    return rows


class TableCell(Struct, frozen=True):
    """One cell: ``short`` stands for a long ``text`` until the reader asks for it."""

    text: str
    short: str = ""
    kind: str = ""
    sign: str = ""
    link: str = ""


def view(table: Table, anchors: Container[str]) -> dict[str, object]:
    """Return what a table's template shows: no columns that have nothing.

    The cell in column ``lead`` names its row. ``anchors`` are the places that links can
    lead to.
    """
    columns = range(len(table.heads))
    lead = min(table.names or set(columns) - table.right, default=0)
    order = [i for i in columns if i == lead or any(row[i] for row in table.rows)]
    kinds = [_kind(table, i) for i in columns]
    links = [link if link in anchors else "" for link in table.anchors]
    shown = zip_longest(table.rows[:MOST_ROWS], links[:MOST_ROWS], fillvalue="")
    return {
        "title": table.title,
        "heads": [TableCell(table.heads[i], kind=kinds[i]) for i in order],
        "rows": [
            [
                _cell(table.heads[i], row[i], kinds[i], link * (i == table.linked))
                for i in order
            ]
            for row, link in shown
        ],
        "lead": order.index(lead),
        "left_out": max(len(table.rows) - MOST_ROWS, 0),
    }


def _cell(head: str, text: str, kind: str, link: str) -> TableCell:
    function = kind == "function"
    text = cut(text, LONGEST_NAME if function else LONGEST_CELL)
    short = shortened(text, SHORT_NAME) if function else text
    return TableCell(text, "" if short == text else short, kind, sign(head, text), link)


def _kind(table: Table, column: int) -> str:
    if column in table.right:
        return "number"
    if column in table.names:
        return "function"
    longest = max((len(row[column]) for row in table.rows[:MOST_ROWS]), default=0)
    return "long" if longest > LONG_TEXT else "short"


def timeline_element(title: str, timeline: Timeline, alone: bool = False) -> Markup:
    """Return a timeline as a part of a page; ``alone`` if it is all of the page.

    Alone it fills the window, and the wheel zooms it at once. It needs ``assets``.
    """
    return render(
        "timeline.html",
        title=shown(title, _TITLE),
        summary=timeline_summary(timeline),
        help=_HELP,
        packed=packed(timeline),
        alone=alone,
    )


def timeline_summary(timeline: Timeline) -> str:
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


def packed(timeline: Timeline) -> str:
    """Return a timeline as text of A-Z, a-z, 0-9, +, / and =."""
    columns = (
        ("start", _steps(timeline)),
        ("length", _bounded(timeline.length)),
        ("name", timeline.name),
        ("facts", timeline.facts),
        ("link", _links(timeline.link)),
        ("merged", timeline.merged),
    )
    planes = [(name, _planes(column)) for name, column in columns]
    header = {
        "count": len(timeline.start),
        "columns": [[name, len(found)] for name, found in planes],
        "names": _cut_names(timeline.names),
        "lanes": _lanes(timeline),
        "notes": _notes(timeline.notes),
        "leftOut": timeline.left_out,
    }
    head = json.dumps(header, separators=(",", ":")).encode()
    body = b"".join(plane for _, found in planes for plane in found)
    data = len(head).to_bytes(4, "little") + head + body
    return base64.b64encode(gzip.compress(data, _LEVEL, mtime=0)).decode()


def shown(text: str, most: int = MOST_TEXT) -> str:
    """Return a text of a trace as it is shown: cut, and its controls escaped."""
    escaped = printable(text[:most])
    longer = max(len(text), len(escaped)) > most
    return escaped[: most - 1] + "…" if longer else escaped


def _cut_names(texts: Sequence[str], together: int = MOST_NAMES) -> list[str]:
    most = MOST_TEXT
    if sum(min(len(text), MOST_TEXT) for text in texts) > together:
        most = max(together // len(texts), _SHORTEST)
    return [shown(text, most) for text in texts]


def _lanes(timeline: Timeline) -> list[dict[str, object]]:
    processes = _cut_names([lane.process for lane in timeline.lanes])
    titles = _cut_names([lane.title for lane in timeline.lanes])
    rows = zip(timeline.lanes, processes, titles, _sizes(timeline), strict=True)
    return [
        {"process": process, "title": title, "kind": lane.kind, "size": size}
        for lane, process, title, size in rows
    ]


def _notes(
    notes: Sequence[tuple[tuple[str, str], ...]],
) -> list[list[tuple[str, str]]]:
    every = [text for note in notes for pair in note for text in pair]
    texts = iter(_cut_names(every, MOST_NOTES))
    return [[(next(texts), next(texts)) for _ in note] for note in notes]


def _sizes(timeline: Timeline) -> list[int]:
    """Return how many spans each lane has."""
    sizes = [0] * len(timeline.lanes)
    for lane in timeline.lane:
        sizes[lane] += 1
    return sizes


def _bounded(column: array[int]) -> array[int]:
    if len(column) and (min(column) < 0 or max(column) > LATEST):
        return array("q", (min(max(value, 0), LATEST) for value in column))
    return column


def _steps(timeline: Timeline) -> array[int]:
    """Return how much later each span starts than the one before it in its lane."""
    start = _bounded(timeline.start)
    steps = array("q", map(operator.sub, start, array("q", [0]) + start[:-1]))
    at = 0
    for count in _sizes(timeline):
        if count:
            steps[at] = start[at]
        at += count
    return steps


def _links(column: array[int]) -> array[int]:
    """Return the links numbered anew from 1; 0 is for none, and for a span alone."""
    counts, numbers = Counter(column), dict[int, int]()
    for link in column:
        if link and counts[link] > 1:
            numbers.setdefault(link, len(numbers) + 1)
    return array("Q", (numbers.get(link, 0) for link in column))


def _planes(column: array[int]) -> list[bytes]:
    if column and min(column) < 0:
        raise ValueError("the spans are not sorted by lane, then by start")
    largest = max(column, default=0)
    data, width = column.tobytes(), column.itemsize
    used = (largest.bit_length() + 7) // 8
    return [data[place::width] for place in range(used)]
