"""A report as the sections of a page, the most important first.

What is missing is said where it would stand. The anchor of a section is what GitHub
makes of its title, so that links lead there in Markdown as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from runner.core.milestone import ReportedKind
from runner.report.blocks import Block, Paragraph, Part, ProgramOutput, Section
from runner.report.charts import TimelineView
from runner.report.diff import blocks as differences
from runner.report.document import (
    analysed,
    beside,
    charts,
    checks,
    head,
    layers,
    tables,
)
from runner.report.document.nouns import PrintedCommand, Report, TracedFile
from runner.report.measurement import measured
from runner.report.words import one_line, size

MOST_PROFILES = 100
"""So many tables of shares are shown."""

_NVPROF = "such as nvprof -o FILE.nvprof"
_NOT_IN_SLUG = re.compile(r"[^a-z0-9 _-]")


def sections(report: Report) -> tuple[Section, ...]:
    """Return the sections of a page, which every form of it has."""
    found = [
        _section("Summary", head.parts(report)),
        *checks.sections(report),
        _section("Submission", _submissions(report)),
        _section("Side by side", beside.parts(report)),
        _section("Comparison", _comparison(report)),
        _section("Op Times and correctness", _networks(report)),
        _section("Run times", tables.run_times(report)),
        _section("Kernels", _shares(report, ReportedKind.KERNELS)),
        _section("API calls", _shares(report, ReportedKind.API_CALLS)),
        _section("Layers", _layers(report)),
        _section("Analysis by kernel", analysed.parts(report)),
        _section("Timelines", _timelines(report)),
        _outputs(report),
    ]
    return tuple(one for one in found if one.parts or one.sections)


def anchor(title: str) -> str:
    """Return the place of a section within a page, as GitHub makes it of its title."""
    return _NOT_IN_SLUG.sub("", title.lower()).replace(" ", "-")


def _section(title: str, parts: Iterable[Part]) -> Section:
    return Section(anchor(title), title, tuple(parts))


def _submissions(report: Report) -> list[Block]:
    return [
        block
        for run in report.runs
        if run.measurement
        for block in measured(run.measurement)
    ]


def _comparison(report: Report) -> Sequence[Part]:
    return differences(report.comparison) if report.comparison else ()


def _networks(report: Report) -> list[Part]:
    if not report.networks:
        return [Paragraph("No command printed Op Times or a correctness.")]
    return [
        *tables.by_images(report),
        *charts.op_times(report),
        tables.networks(report),
    ]


def _shares(report: Report, kind: ReportedKind) -> list[Part]:
    shown = [one for one in report.shares if one.kind is kind]
    if not shown:
        what = (
            "the GPU's time" if kind is ReportedKind.KERNELS else "calls of CUDA's API"
        )
        text = f"No profile of {what}: no command ran under a profiler, {_NVPROF}."
        return [Paragraph(text)]
    parts: list[Part] = [
        Paragraph(
            "Each table has the longest rows, as many as together take more than 90 %"
            " of the time, and the sum of the others."
        )
    ]
    if len(shown) > MOST_PROFILES:
        more = len(shown) - MOST_PROFILES
        parts.append(Paragraph(f"{more} more profiles are in the report as JSON."))
    for number, one in enumerate(shown[:MOST_PROFILES]):
        parts.append(tables.shares(report, one))
        if kind is ReportedKind.KERNELS and number < charts.MOST_PICTURES:
            parts.append(charts.shares(report, one, number))
    return parts


def _layers(report: Report) -> Sequence[Part]:
    if not report.shapes:
        text = (
            "Not known: no run's build folder has a rai-kernels.json with layers, which"
            " the project writes (docs/kernel-shapes.md)."
        )
        return [Paragraph(text)]
    return [*layers.shapes(report), *layers.rates(report)]


def _timelines(report: Report) -> list[Part]:
    shown = [one for one in report.traces if one.trace.spans]
    if not shown:
        text = f"No run kept a profile from which a timeline can be drawn, {_NVPROF}."
        return [Paragraph(text)]
    return [
        TimelineView(key(one), tables.of_run(report, one.run, _timeline_title(one)))
        for one in shown
    ]


def key(file: TracedFile) -> str:
    """Return the name of a timeline in a report, which may be of several runs."""
    return f"{file.run}/{file.trace.path}"


def _timeline_title(file: TracedFile) -> str:
    of = f" of command {file.number}, {file.name}" if file.number else ""
    return f"{file.trace.path}{of}"


def _outputs(report: Report) -> Section:
    parts = [part for one in report.outputs for part in _output(report, one)]
    if not parts:
        parts = [Paragraph("No command printed anything that is kept.")]
    return _section("Output", parts)


def _output(report: Report, one: PrintedCommand) -> list[Part]:
    if one.output is None:
        return []
    found = one.output
    text = found.head
    if found.left_out_bytes:
        gap = f"[{size(found.left_out_bytes)} are left out here]"
        text = f"{found.head}\n{gap}\n{found.tail}"
    title = f"Command {one.number}: {one_line(one.command)}"
    return [
        ProgramOutput(tables.of_run(report, one.run, title), text, found.left_out_bytes)
    ]
