"""Blocks of reports as Markdown, as GitHub renders it: reports, and a job's page."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import PurePath

from msgspec import Struct

from runner.core import Reason, RunRecord
from runner.core.screen import printable
from runner.figures.table import cut
from runner.report import phrases
from runner.report import runs as report_runs
from runner.report.blocks import (
    Block,
    Pairs,
    Paragraph,
    Part,
    Picture,
    ProgramOutput,
    Section,
    Table,
    TimelineView,
)
from runner.report.reported import Annotation, ReportedRun

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
_NOTE = "\n*{} lines are left out, as there is no room for them.*\n"
_FRAMES = (("<pre>", "</pre>"), ("<details>", "</details>"))
_SPARE = 128
"""Bytes for the note, and for the ends of what is open where the page is cut."""

MARK = "<!-- rai report -->"
"""The first line, which no page shows: such a file may be written anew."""

MOST_BYTES = 1024 * 1000
"""GitHub refuses the file of a step if it is over 1024 KiB (FileCommandManager.cs)."""

SHOWN_TAILS = 10


class Conclusion(Struct, frozen=True):
    """A comparison or a gate: what came of it in a line, if anything, and tables."""

    title: str
    blocks: tuple[Block, ...]


def document(
    title: str,
    sections: Sequence[Section],
    most_bytes: int,
    pictures: Mapping[str, str] = {},
) -> str:
    """Return a page of at most so many bytes.

    ``pictures`` are links to the pictures' files, by the pictures' names; one without a
    file is left out, as its figures are in the tables beside it. Rows that do
    not fit are left out and counted.
    """
    body = "".join(
        heading(section.title)
        + "".join(_part(part, pictures) for part in section.parts)
        for section in sections
    )
    return bounded(f"{MARK}\n{heading(title, 1)}{body}", most_bytes)


def summary(
    runs: Sequence[ReportedRun],
    failures: Sequence[Annotation] = (),
    concluded: Sequence[Conclusion] = (),
    *,
    there: int = 0,
) -> str:
    """Return the page of some runs, for a file that has ``there`` bytes already.

    It is what GitHub shows of a job. ``failures`` are problems that belong to no
    command. What is ``concluded`` comes before the runs; several are folded below a
    title.
    """
    parts = [heading("rai")] if failures else []
    if failures:
        rows = [(str(f.place) if f.place else "", f.title, f.text) for f in failures]
        parts.append(block(Table("", ("where", "what", "why"), tuple(rows))))
    for one in concluded:
        parts += [heading(one.title)] if one.title else []
        parts += map(block, one.blocks)
    folds = len(runs) > 1 and any(one.title for one in concluded)
    for run in runs:
        name, git = PurePath(run.record.project).name, run.record.git
        if folds:
            name = run.record.title or name
            name += f", {git.commit[:7]}" if git else ""
            parts.append(folded(_title(run.record, name), _run(run)))
        else:
            parts += [heading(_title(run.record, name)), _run(run)]
    return bounded("".join(parts), max(0, MOST_BYTES - there))


def text(value: str) -> str:
    """Escape a text for a place within a line or a cell of a table.

    Nothing in it is HTML, emphasis, code, a link, an image or a formula, and it names
    nobody: GitHub finds ``@name`` and ``#1`` after Markdown's own escapes are resolved,
    so a character without width follows the sign.
    """
    shown = printable(cut(value, LONGEST_CELL)).replace("\t", " ").replace("\r", " ")
    escaped = _MARKUP.sub(_entities, shown.strip())
    if escaped.count("$") > 1:  # a formula stands between two
        escaped = escaped.replace("$", f"&#{ord('$')};")
    return _REFERENCE.sub(rf"\1{_APART}", escaped).replace("\n", "<br>")


def heading(value: str, level: int = 2) -> str:
    """Return a heading."""
    return f"{'#' * level} {text(value)}\n\n"


def paragraph(value: str, strong: str = "") -> str:
    """Return a paragraph of plain text, with what stands out before it."""
    begun = f"**{text(strong)}** " if strong else ""
    return f"{begun}{text(value)}\n\n"


def output(title: str, value: str) -> str:
    """Return a program's output below a title that unfolds it.

    Within ``<pre>`` nothing but HTML is read, and names of people are let alone.
    """
    shown = printable(value).replace("&", "&amp;").replace("<", "&lt;")
    return folded(title, f"<pre>\n{shown.replace('>', '&gt;')}\n</pre>\n\n")


def folded(title: str, inner: str) -> str:
    """Return what is shown when one opens its title."""
    return f"<details><summary>{text(title)}</summary>\n\n{inner}</details>\n\n"


def picture(value: str, link: str) -> str:
    """Return a picture of a quoted address; ``value`` says what it shows."""
    return f"![{text(value)}]({link})\n\n"


def block(shown: Block) -> str:
    """Return a block as a table below its heading.

    The columns with numbers are aligned to the right. One cell of a row leads to the
    section that the row belongs to.
    """
    if isinstance(shown, Pairs):
        return f"| | |\n|---|---|\n{''.join(map(_row, shown.rows))}\n"
    title = heading(shown.title, 3) if shown.title else ""
    rules = ["---:" if i in shown.right else "---" for i, _ in enumerate(shown.heads)]
    places = zip_longest(shown.rows, shown.anchors, fillvalue="")
    rows = "".join(_row(row, to, shown.linked) for row, to in places)
    return f"{title}{_row(shown.heads)}|{'|'.join(rules)}|\n{rows}\n"


def bounded(page: str, most_bytes: int) -> str:
    """Return a page of at most so many bytes in UTF-8.

    Lines that do not fit, such as rows of tables, are left out, with a note that counts
    them; "" if there is no room for anything.
    """
    data = page.encode()
    if len(data) <= most_bytes:
        return page
    kept = data[: max(most_bytes - _SPARE, 0)].rpartition(b"\n")[0].decode()
    if not kept:
        return ""
    ends = [end * (kept.count(begin) - kept.count(end)) for begin, end in _FRAMES]
    left_out = len(page[len(kept) :].strip().splitlines())
    return "\n".join((kept, *ends, _NOTE.format(left_out)))


def _entities(found: re.Match[str]) -> str:
    return "".join(f"&#{ord(sign)};" for sign in found.group())


def _row(cells: Sequence[str], anchor: str = "", at: int = 0) -> str:
    shown = list(map(text, cells))
    if anchor:
        shown[at] = f"[{shown[at]}](#{anchor})"
    return f"| {' | '.join(shown)} |\n"


def _part(part: Part, pictures: Mapping[str, str]) -> str:
    match part:
        case Paragraph(text, strong):
            return paragraph(text, strong)
        case ProgramOutput(title, text):
            return output(title, text)
        case Picture(name, text):
            return picture(text, pictures[name]) if name in pictures else ""
        case TimelineView(path, title):
            run, _, file = path.partition("/")
            command = shlex.join(("rai", "timeline", run, file))
            return paragraph(
                f"The timeline of {title} is in the report as HTML (--format html), and"
                f" `{command}` shows it."
            )
        case _:
            return block(part)


def _title(record: RunRecord, name: str) -> str:
    verdict = record.verdict
    how = phrases.words(verdict.reason) if verdict else record.state.value
    good = verdict is not None and verdict.reason is Reason.DONE
    return f"{'✅' if good else '❌'} rai {name}: {how}"


def _run(run: ReportedRun) -> str:
    parts = list(map(block, report_runs.of(run.record, run.tag)))
    failed = [c for c in run.record.commands if run.tail(c)]
    for command in failed[:SHOWN_TAILS]:
        title = f"The end of what command {command.number} printed"
        parts.append(output(title, run.tail(command)))
    return "".join(parts)
