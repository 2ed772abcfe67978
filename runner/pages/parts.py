"""The parts of a report as markup."""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import Markup

from runner import pictures
from runner.core.trace import Timeline
from runner.pages import charted, outputs, tables, templates, timeline
from runner.pages.anchors import Anchors
from runner.pages.elements import PageElement
from runner.report.blocks import Pairs, Paragraph, Part, ProgramOutput, Section, Table
from runner.report.charts import Picture, TimelineView
from runner.report.signs import sign


class PartWriter:
    """Makes the markup of one part after the other.

    ``elements`` are those among them that bring a style or a script.
    """

    def __init__(
        self,
        timelines: Mapping[str, Timeline],
        anchors: Anchors,
    ) -> None:
        self._timelines, self._anchors = timelines, anchors
        self._title = ""
        self.elements: list[PageElement] = []

    def enter(self, section: Section) -> None:
        """Go on with the parts of this section, whose title names what has none."""
        self._title = section.title

    def markup(self, part: Part) -> Markup:
        """Return the markup of a part."""
        if isinstance(part, Pairs):
            return templates.render("pairs.html", rows=_rows(part))
        if isinstance(part, Table):
            return self._table(part)
        if isinstance(part, Paragraph):
            return templates.render("paragraph.html", text=part.text)
        if isinstance(part, ProgramOutput):
            shown = outputs.bounded(part)
            name = self._anchors.unlike(shown.title or self._title)
            return templates.render("output.html", output=shown, name=name)
        if isinstance(part, Picture):
            return self._picture(part)
        return self._timeline(part)

    def _table(self, table: Table) -> Markup:
        shown = tables.view(table, self._anchors)
        return templates.render(
            "table.html",
            table=shown,
            name=self._anchors.unlike(table.title or self._title),
        )

    def _timeline(self, view: TimelineView) -> Markup:
        found = self._timelines.get(view.path)
        if found is None:
            return templates.render("absent.html", what="timeline", name=view.path)
        made = timeline.element(view.title, found)
        self.elements.append(made)
        return made.markup

    def _picture(self, picture: Picture) -> Markup:
        self.elements.append(PageElement(Markup(), pictures.STYLE))
        return templates.render(
            "picture.html",
            picture=picture,
            name=self._anchors.unlike(picture.chart.title),
            svg=Markup(pictures.svg(picture.chart, style="")),
            data=self._table(charted.table(picture.chart)),
        )


def _rows(pairs: Pairs) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return each name with its values; one without a name goes on with the last."""
    rows: list[tuple[str, list[tuple[str, str]]]] = []
    for name, value in pairs.rows:
        if name or not rows:
            rows.append((name, []))
        rows[-1][1].append((value, sign(name, value)))
    return rows
