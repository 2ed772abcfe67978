"""A report as a page: a list of its contents, and its sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from runner.core.trace import Timeline
from runner.pages import shell, templates
from runner.pages.anchors import Anchors
from runner.pages.elements import PageElement
from runner.pages.parts import PartWriter
from runner.report.blocks import Section

TOP = 2
"""The level of the headings of the outermost sections; the title has the first."""

DEEPEST = 6
LISTED_LEVELS = 2
"""How many levels of sections the list of contents has."""


def report(
    title: str,
    sections: Sequence[Section],
    timelines: Mapping[str, Timeline],
) -> str:
    """Return the page of a report.

    ``timelines`` has the spans for the path of each TimelineView. The page says so
    where one is absent.
    """
    writer = PartWriter(timelines, Anchors(sections))
    body = Markup().join(_section(each, writer, TOP) for each in sections)
    own = PageElement(
        Markup(), templates.asset("report.css"), templates.asset("report.js")
    )
    contents = templates.render(
        "contents.html", sections=sections, levels=LISTED_LEVELS
    )
    return shell.page(title, body, [own, *writer.elements], contents=contents)


def _section(section: Section, writer: PartWriter, level: int) -> Markup:
    writer.enter(section)
    parts = [writer.markup(part) for part in section.parts]
    within = [_section(each, writer, level + 1) for each in section.sections]
    return templates.render(
        "section.html",
        anchor=section.anchor,
        title=section.title,
        heading=f"h{min(level, DEEPEST)}",
        parts=[*parts, *within],
    )
