"""Blocks of reports as Markdown, as GitHub renders it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from runner.core.screen import printable
from runner.report.blocks import Block, Pairs, Paragraph, Part, ProgramOutput, Section
from runner.report.charts import Picture, TimelineView

LONGEST_CELL = 1000
"""Characters of a cell; what is longer, such as a name of a template, is cut."""

_MARKUP = re.compile(
    r"[<`|*~\[\]\\@]"
    r"|^[>#]|^[-+=](?=[-+=\s]|$)|^\d+[.)](?=\s|$)"  # what begins another block
    r"|#(?=\w)"  # a number that GitHub links
    r"|&(?=[#\w])"
    r"|(?<![^\W_])_+|_+(?![^\W_])"  # within a word it is no emphasis
    r"|:(?=//|[\w+-]*[^\W\d][\w+-]*:|[+-]\d*:|\d{3,}:)"  # an address, an emoji's name
    r"|(?<=mailto):|(?<=xmpp):"
    r"|(?<=www)\.",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"(&#64;|&#35;)(?=\w)")
_APART = "&#8203;"
_NOTE = "\n*{} rows are left out, as there is no room for them.*\n"

MARK = "<!-- rai report -->"
"""The first line, which no page shows: such a file may be written anew."""

NO_FILES: Mapping[str, str] = {}
_DEEPEST = 6


class PagePart(Struct, frozen=True):
    """A piece of a page: lines that belong together, and rows that may be cut.

    ``tail`` closes what ``head`` opens; it stays if rows are left out.
    """

    head: str
    rows: tuple[str, ...] = ()
    tail: str = ""


def text(value: str) -> str:
    """Escape a text for a place within a line or a cell of a table.

    Nothing in it is HTML, emphasis, code, a link, an image or a formula, and it names
    nobody: GitHub finds ``@name`` and ``#1`` after Markdown's own escapes are resolved,
    so a character without width follows the sign.
    """
    if len(value) > LONGEST_CELL:
        value = value[: LONGEST_CELL - 1] + "…"
    shown = printable(value).replace("\t", " ").replace("\r", " ").strip()
    escaped = _MARKUP.sub(_entities, shown)
    if escaped.count("$") > 1:  # a formula stands between two
        escaped = escaped.replace("$", f"&#{ord('$')};")
    return _REFERENCE.sub(rf"\1{_APART}", escaped).replace("\n", "<br>")


def heading(value: str, level: int = 2) -> PagePart:
    """Return a heading."""
    return PagePart(f"{'#' * level} {text(value)}\n\n")


def paragraph(value: str, strong: str = "") -> PagePart:
    """Return a paragraph of plain text, with what stands out before it."""
    begun = f"**{text(strong)}** " if strong else ""
    return PagePart(f"{begun}{text(value)}\n\n")


def output(title: str, value: str) -> PagePart:
    """Return a program's output below a title that unfolds it.

    Within ``<pre>`` nothing but HTML is read, and names of people are let alone.
    """
    shown = printable(value).replace("&", "&amp;").replace("<", "&lt;")
    head = f"<details><summary>{text(title)}</summary>\n\n<pre>\n"
    return PagePart(head, (shown.replace(">", "&gt;"),), "\n</pre>\n\n</details>\n\n")


def folded(title: str, parts: Iterable[PagePart]) -> Iterator[PagePart]:
    """Yield parts that are shown when one opens their title."""
    yield PagePart(f"<details><summary>{text(title)}</summary>\n\n")
    yield from parts
    yield PagePart("</details>\n\n")


def picture(value: str, link: str) -> PagePart:
    """Return a picture of a quoted address; ``value`` says what it shows."""
    return PagePart(f"![{text(value)}]({link})\n\n")


def block(shown: Block, level: int = 3) -> PagePart:
    """Return a block as a table below a heading of a level.

    The columns with numbers are aligned to the right. One cell of a row leads to the
    section that the row belongs to.
    """
    if isinstance(shown, Pairs):
        head = "| | |\n|---|---|\n"
        return PagePart(head, tuple(map(_row, shown.rows)), "\n")
    title = f"{'#' * level} {text(shown.title)}\n\n" if shown.title else ""
    rules = ["---:" if i in shown.right else "---" for i, _ in enumerate(shown.heads)]
    head = f"{title}{_row(shown.heads)}|{'|'.join(rules)}|\n"
    if not shown.anchors:
        return PagePart(head, tuple(map(_row, shown.rows)), "\n")
    places, at = zip(shown.rows, shown.anchors, strict=True), shown.linked
    return PagePart(head, tuple(_row(row, to, at) for row, to in places), "\n")


def blocks(shown: Iterable[Block]) -> str:
    """Return blocks as one text."""
    return page([block(one) for one in shown])


def page(parts: Sequence[PagePart], most_bytes: int | None = None) -> str:
    """Return the parts as one text of at most so many bytes in UTF-8.

    Rows that do not fit are left out whole, with a note that counts them; "" if there
    is no room for anything.
    """
    every = "".join(part.head + "".join(part.rows) + part.tail for part in parts)
    if most_bytes is None or _size(every) <= most_bytes:
        return every
    left = most_bytes - _size(_NOTE) - len(str(10**9))
    kept: list[str] = []
    lost = 0
    for part in parts:
        whole = _size(part.head) + _size(part.tail)
        fits = whole <= left and not (lost and part.rows)
        rows = 0
        if fits:
            left -= whole
            kept.append(part.head)
            for row in part.rows:
                if _size(row) > left:
                    break
                left -= _size(row)
                kept.append(row)
                rows += 1
            kept.append(part.tail)
        lost += max(len(part.rows), 0 if fits else 1) - rows
    return "".join(kept) + _NOTE.format(lost) if kept else ""


def _entities(found: re.Match[str]) -> str:
    return "".join(f"&#{ord(sign)};" for sign in found.group())


def _row(cells: Sequence[str], anchor: str = "", at: int = 0) -> str:
    shown = list(map(text, cells))
    if anchor:
        shown[at] = f"[{shown[at]}](#{anchor})"
    return f"| {' | '.join(shown)} |\n"


def _size(value: str) -> int:
    return len(value.encode())


def document(
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
    parts = [PagePart(f"{MARK}\n"), heading(title, 1)]
    for section in sections:
        parts += _section(section, 2, pictures)
    return page(parts, most_bytes)


def _section(
    section: Section, level: int, pictures: Mapping[str, str]
) -> Iterator[PagePart]:
    yield heading(section.title, min(level, _DEEPEST))
    for part in section.parts:
        yield from _part(part, min(level + 1, _DEEPEST), pictures)
    for inner in section.sections:
        yield from _section(inner, level + 1, pictures)


def _part(part: Part, level: int, pictures: Mapping[str, str]) -> Iterator[PagePart]:
    match part:
        case Paragraph(text, strong):
            yield paragraph(text, strong)
        case ProgramOutput(title, text):
            yield output(title, text)
        case Picture(name, text):
            if link := pictures.get(name):
                yield picture(text, link)
        case TimelineView(path, title):
            run, _, file = path.partition("/")
            command = shlex.join(("rai", "timeline", run, file))
            yield paragraph(
                f"The timeline of {title} is in the report as HTML (--format html), and"
                f" `{command}` shows it."
            )
        case _:
            yield block(part, level)
