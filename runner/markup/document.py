"""The sections of a report as one Markdown text, to paste or to keep in a file."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from runner.markup import markdown
from runner.markup.markdown import PagePart
from runner.report.blocks import Paragraph, Part, ProgramOutput, Section
from runner.report.charts import Picture, TimelineView

MARK = "<!-- rai report -->"
"""The first line, which no page shows: such a file may be written anew."""

NO_FILES: Mapping[str, str] = {}
_DEEPEST = 6


def page(
    title: str,
    sections: Sequence[Section],
    most_bytes: int,
    pictures: Mapping[str, str] = NO_FILES,
) -> str:
    """Return a page of at most so many bytes.

    ``pictures`` are links to the pictures' files, by the pictures' names; one without a
    file is left out, as its figures are in the tables beside it. Rows that do
    not fit are left out and counted.
    """
    parts = [PagePart(f"{MARK}\n"), markdown.heading(title, 1)]
    for section in sections:
        parts += _section(section, 2, pictures)
    return markdown.page(parts, most_bytes)


def _section(
    section: Section, level: int, pictures: Mapping[str, str]
) -> Iterator[PagePart]:
    yield markdown.heading(section.title, min(level, _DEEPEST))
    for part in section.parts:
        yield from _part(part, min(level + 1, _DEEPEST), pictures)
    for inner in section.sections:
        yield from _section(inner, level + 1, pictures)


def _part(part: Part, level: int, pictures: Mapping[str, str]) -> Iterator[PagePart]:
    match part:
        case Paragraph(text):
            yield markdown.paragraph(text)
        case ProgramOutput(title, text):
            yield markdown.output(title, text)
        case Picture(name, text):
            if link := pictures.get(name):
                yield markdown.picture(text, link)
        case TimelineView(path, title):
            run, _, file = path.partition("/")
            command = shlex.join(("rai", "timeline", run, file))
            yield markdown.paragraph(
                f"The timeline of {title} is in the report as HTML (--format html), and"
                f" `{command}` shows it."
            )
        case _:
            yield markdown.block(part, level)
