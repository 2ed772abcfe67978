"""The check-list of each milestone as a section."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from runner.core.milestone import ReportedKind
from runner.report.blocks import Paragraph, Part, Section, Table
from runner.report.document import commands
from runner.report.document.nouns import CheckedItem, CheckedMilestone, Report

ANCHORS = {
    ReportedKind.OUTPUT: "output",
    ReportedKind.RUN_TIME: "run-times",
    ReportedKind.ACCURACY: "op-times-and-correctness",
    ReportedKind.CORRECTNESS: "op-times-and-correctness",
    ReportedKind.OP_TIMES: "op-times-and-correctness",
    ReportedKind.KERNELS: "kernels",
    ReportedKind.API_CALLS: "api-calls",
    ReportedKind.TIMELINE: "timelines",
    ReportedKind.ANALYSIS: "analysis-by-kernel",
}
"""The section that shows each kind of item."""

_NAMES = {
    ReportedKind.OP_TIMES: "Op Times",
    ReportedKind.KERNELS: "kernels over 90 %",
    ReportedKind.API_CALLS: "API calls over 90 %",
}


def sections(report: Report) -> Iterator[Section]:
    """Yield one section with a part for each milestone, if there is any."""
    if report.milestones:
        inner = tuple(map(_milestone, report.milestones))
        yield Section("check-list", "Check-list", (), inner)


def _milestone(found: CheckedMilestone) -> Section:
    there = sum(item.there for item in found.items)
    counted = f"{there} of {len(found.items)} are there."
    parts: list[Part] = [Paragraph(counted)]
    rows = tuple(_row(item) for item in found.items)
    anchors = tuple(ANCHORS[item.kind] if item.there else "" for item in found.items)
    heads = ("shows", "of", "result", "what")
    parts.append(Table("", heads, rows, anchors=anchors))
    parts += _advice(item for item in found.items if not item.there)
    return Section(f"check-list-{_letters(found.name)}", _title(found), tuple(parts))


def _advice(missing: Iterable[CheckedItem]) -> Iterator[Part]:
    """Yield what to do about commands that are there, and what lines to add."""
    lines: dict[str, str] = {}
    alike: dict[str, list[int]] = {}
    for item in missing:
        if item.numbers:
            alike.setdefault(item.how, []).extend(item.numbers)
        else:
            lines[item.how] = item.why
    for how, numbers in alike.items():
        # Without a full stop, which would seem to belong to a command line.
        yield Paragraph(f"{commands.numbered(numbers).capitalize()}: {how}")
    if lines:
        title = "Lines for the build file that give the rest"
        yield Table(title, ("command", "why it is missing"), tuple(lines.items()))


def _title(found: CheckedMilestone) -> str:
    return f"{found.name}: {found.title}"


def _letters(name: str) -> str:
    return "".join(c if c.isalnum() and c.isascii() else "-" for c in name.lower())


def _row(item: CheckedItem) -> tuple[str, ...]:
    images = "" if item.images is None else f" {item.images}"
    variants = f", {item.variants} variants" if item.variants > 1 else ""
    of = f"{item.script}{images}{variants}"
    there = "there" if item.there else "missing"
    return (_NAMES.get(item.kind, item.kind.value), of, there, item.found or item.why)
