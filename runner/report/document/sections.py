"""A report as the sections of a page, the most important first.

The answers come first, then the check-lists, then all figures, folded. What is missing
is said where it would stand. The anchor of a section is what GitHub makes of its title,
so that links lead there in Markdown as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from runner.core import Reason
from runner.core.milestone import ReportedKind
from runner.core.quantities import brief, size
from runner.figures.table import one_line
from runner.report.blocks import (
    Pairs,
    Paragraph,
    Part,
    Picture,
    ProgramOutput,
    Section,
    TimelineView,
)
from runner.report.diff_blocks import blocks as differences
from runner.report.document import checklist, conclusions, rates, tables
from runner.report.document.nouns import Report, RunSummary, TracedFile
from runner.report.document.tables import of_run
from runner.report.findings import measured
from runner.report.phrases import commit, date, elsewhere, words
from runner.report.runs import where

SYNTHETIC = (
    "These figures are of synthetic images: the data files were missing. The agreement"
    " is that with the reference's labels. It is no accuracy and no correctness."
)
_NOT_IN_SLUG = re.compile(r"[^a-z0-9 _-]")


def sections(report: Report) -> tuple[Section, ...]:
    """Return the sections of a page, which every form of it has."""
    submissions = (measured(r.measurement) for r in report.runs if r.measurement)
    differing = differences(report.comparison) if report.comparison else ()
    kernels, calls = ReportedKind.KERNELS, ReportedKind.API_CALLS
    best = conclusions.best_profiles(report)
    found = [
        _section("Summary", _head(report, best)),
        _section("Check-list", checklist.parts(report)),
        _section("Submission", (block for each in submissions for block in each)),
        _section("Side by side", tables.beside(report)),
        _section("Comparison", differing, folded=True),
        _section("Op Times and correctness", tables.networks(report), folded=True),
        _section("Run times", tables.run_times(report), folded=True),
        _section("Kernels", tables.shares(report, kernels), folded=True),
        _section("API calls", tables.shares(report, calls), folded=True),
        _section("Analysis by kernel", rates.kernels(report, set(best)), folded=True),
        _section("Layers", rates.layers(report), folded=True),
        _section("Timelines", _timelines(report), folded=True),
        _section("Output", _outputs(report), folded=True),
        _section("Runs and machines", _facts(report), folded=True),
    ]
    return tuple(one for one in found if one.parts)


def pictures(found: Iterable[Section]) -> Iterator[Picture]:
    """Yield every picture of a page, in order."""
    for section in found:
        yield from (part for part in section.parts if isinstance(part, Picture))


def anchor(title: str) -> str:
    """Return the place of a section within a page, as GitHub makes it of its title."""
    return _NOT_IN_SLUG.sub("", title.lower()).replace(" ", "-")


def _section(title: str, parts: Iterable[Part], *, folded: bool = False) -> Section:
    return Section(anchor(title), title, tuple(parts), folded=folded)


def _head(report: Report, best: Sequence[tuple[str, str]]) -> Iterator[Part]:
    """Yield what each run is, what to be careful about, and the answers."""
    for run in report.runs:
        if run.synthetic:
            yield Paragraph(of_run(report, run.run, SYNTHETIC))
        if not run.state.final:
            yield Paragraph(
                f"Run {run.run} has not ended: it is {run.state}. The report has what"
                " is there so far."
            )
        yield Pairs(tuple((name, value) for name, value in _brief(run) if value))
    yield from conclusions.parts(report)
    for profile in best:
        yield from rates.rooflines(report, profile)


def _brief(run: RunSummary) -> Iterator[tuple[str, str]]:
    took = f" and took {brief(run.took_s)}" if run.took_s is not None else ""
    note = f", {run.tag}" if run.tag else ""
    yield "run", f"{run.run}{note}, of {date(run.created_at)}{took}"
    yield "note", run.note
    yield "result", _result(run)
    if run.verdict and run.verdict.reason is not Reason.DONE:
        yield "", run.verdict.message
        yield "advice", run.verdict.advice
    yield "state", "" if run.verdict else run.state.value
    yield "", elsewhere(run.run, run.away) if run.away else ""
    yield "images", "SYNTHETIC; agreement is not an accuracy" if run.synthetic else ""
    yield "missing data", ", ".join(run.missing_data)
    gpus = ", ".join(gpu.name for gpu in run.gpu.gpus) if run.gpu else ""
    yield "GPU", gpus or "none was given to the run"
    yield "commit", commit(run.git)
    yield "incomplete", run.unfound
    for text in run.warnings:
        yield "warning", text
    for text in run.problems:
        yield "not read", text


def _result(run: RunSummary) -> str:
    """Return the verdict in a few words, with the exit code."""
    if run.verdict is None:
        return ""
    reason = run.verdict.reason
    answers = {True: ", answers right", False: ", answers wrong", None: ""}
    return f"{words(reason)} (exit {reason.exit_code}){answers[run.verdict.passed]}"


def _facts(report: Report) -> Iterator[Pairs]:
    """Yield what each run is of, and what it ran on."""
    for run in report.runs:
        rows = [("run", run.run), ("project", run.project), ("part of", run.title)]
        if run.rounds_wanted > 1 or run.rounds > 1:
            rows.append(("rounds", f"{run.rounds} of {run.rounds_wanted}"))
        rows.append(("only", ", ".join(run.only)))
        rows += where(run)
        yield Pairs(tuple((name, value) for name, value in rows if value))


def _timelines(report: Report) -> Iterator[Part]:
    shown = [one for one in report.traces if one.trace.spans]
    if not shown:
        text = "No run kept a profile from which a timeline can be drawn,"
        yield Paragraph(f"{text} {tables.NVPROF}.")
    for one in shown:
        of = f" of command {one.number}, {one.name}" if one.number else ""
        yield TimelineView(key(one), of_run(report, one.run, f"{one.trace.path}{of}"))


def key(file: TracedFile) -> str:
    """Return the name of a timeline in a report, which may be of several runs."""
    return f"{file.run}/{file.trace.path}"


def _outputs(report: Report) -> Iterator[Part]:
    shown = [one for one in report.outputs if one.output]
    if not shown:
        yield Paragraph("No command printed anything that is kept.")
    for one in shown:
        assert one.output
        text, left_out = one.output.head, one.output.left_out_bytes
        if left_out:
            text += f"\n[{size(left_out)} are left out here]\n{one.output.tail}"
        title = f"Command {one.number}: {one_line(one.command)}"
        yield ProgramOutput(of_run(report, one.run, title), text, left_out)
