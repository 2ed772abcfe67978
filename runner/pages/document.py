"""A report as a page: a list of its contents, and its sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from runner import pictures
from runner.core.trace import Timeline
from runner.pages import shell, tables, timeline
from runner.pages.shell import render
from runner.report.blocks import Pairs, Paragraph, Part, ProgramOutput, Section, Table
from runner.report.charts import Picture, TimelineView
from runner.report.signs import sign


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
    styles = [shell.asset("report.css"), pictures.STYLE]
    scripts = [shell.asset("report.js")]
    if timelines:
        style, script = timeline.assets()
        styles, scripts = [*styles, style], [*scripts, script]
    contents = render("contents.html", sections=sections)
    return shell.page(title, body, styles, scripts, contents)


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
                shown = tables.view(part, self._anchors)
                return render("table.html", table=shown, name=name)
            case ProgramOutput():
                name = self._unlike(part.title or self._title)
                return render("output.html", output=part, name=name)
            case Picture():
                name = self._unlike(part.chart.title)
                svg = Markup(pictures.svg(part.chart, style=""))
                return render("picture.html", picture=part, name=name, svg=svg)
            case TimelineView(path, title) if path in self._timelines:
                return timeline.element(title, self._timelines[path])
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
