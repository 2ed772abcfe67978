"""`rai report RUN...`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path, PurePath
from typing import Annotated

import typer

from runner.cli import ci, common
from runner.core import Problem, RunRecord
from runner.core.errors import ConfigError, UsageError
from runner.core.milestone import Milestone
from runner.execution import places
from runner.report import diff, document, evidence, exports
from runner.report.diff_nouns import RunDiff
from runner.report.document import checklist
from runner.report.document import sections as document_sections
from runner.report.document.nouns import Report
from runner.report.exports import VISIBILITIES
from runner.spec import milestones
from runner.store import outputs
from runner.store.paths import RunPaths
from runner.store.settings import Settings
from runner.system import files
from runner.terminal.browser import show
from runner.terminal.streams import problems, put, say

START_BYTES = 8 << 10
"""So much of a file tells whether it is a report."""

MARKS = ('<meta name="generator" content="rai">', "<!-- rai report -->", '"rai_report"')
"""What each form of a report has near its beginning."""

MOST_MARKDOWN = 512 << 10
"""The most bytes of a report as md, which GitHub still shows as a page."""


class ReportFormat(StrEnum):
    """The forms of a report."""

    HTML = "html"
    MD = "md"
    JSON = "json"
    JUNIT = "junit"
    GRADESCOPE = "gradescope"


SUFFIXES = {
    ReportFormat.HTML: ".html",
    ReportFormat.MD: ".md",
    ReportFormat.JSON: ".json",
    ReportFormat.JUNIT: ".xml",
    ReportFormat.GRADESCOPE: ".json",
}
"""How the file of each form ends."""


def report(
    runs: common.RunArguments,
    form: Annotated[
        ReportFormat | None,
        typer.Option(
            "--format",
            help="The form of the report.  [default: as -o ends, else html]",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write to this file.  [default: html to a page that is kept for a day,"
            " the others to stdout]",
            show_default=False,
        ),
    ] = None,
    milestone: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A milestone whose check-list it has. Repeatable.  [default: those"
            " whose scripts the runs have]",
            show_default=False,
        ),
    ] = None,
    visibility: Annotated[
        str,
        typer.Option(
            help="Who sees the tests on Gradescope: visible, hidden, after_due_date or"
            " after_published."
        ),
    ] = "visible",
    points: Annotated[
        float, typer.Option(help="What each command is worth on Gradescope.")
    ] = 1.0,
    open_it: Annotated[
        bool, typer.Option("--open", help="Open the file in a browser.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a file that is not a report.")
    ] = False,
) -> None:
    """Make a report of runs, with the figures a milestone asks for.

    It begins with whether the results are right, how fast the best is, which step
    brought what, and what bounds it. The check-list of each milestone says what is
    there, what is missing, and which command would give it. Then come Op Times and
    correctness, run times, the kernels and API calls that together take over 90 % of
    the time, layers, what bounds each kernel, timelines, and what the commands printed.
    Several runs stand side by side; of two it says what changed.

    \b
    rai report latest --open            a page of HTML, in a browser
    rai report latest --format md       for an issue, or a report of one's own
    rai report before after -o both.html
    rai report latest --format junit|gradescope   for CI systems and autograders
    """
    chosen = _choice(form, output)
    _check_points(visibility, points)
    paths = common.find_runs(runs)
    if output is not None:
        _check_target(output, chosen, force=force)
    if chosen in (ReportFormat.JUNIT, ReportFormat.GRADESCOPE):
        text = _exported(paths, chosen, visibility, points)
    else:
        text = made(paths, common.settings(), milestone or (), chosen)
    if output is not None:
        files.write(output, text.encode(errors="replace"))
        say(f"Wrote {output}.")
    elif chosen is ReportFormat.HTML or open_it:
        suffix = SUFFIXES[chosen]
        output = outputs.keep_page(common.home(), "report", text, suffix)
        say(f"Wrote {output}, which is kept for a day; -o FILE keeps a report.")
    else:
        put(text)
    if open_it and output is not None:
        show(output)


def _choice(form: ReportFormat | None, output: Path | None) -> ReportFormat:
    """Return the form that is asked for, or that the file's name says."""
    suffix = output.suffix.lower() if output else ""
    named = {".htm": ReportFormat.HTML, ".markdown": ReportFormat.MD}
    named |= {end: form for form, end in reversed(SUFFIXES.items())}
    return form or named.get(suffix, ReportFormat.HTML)


def _check_target(path: Path, form: ReportFormat, *, force: bool) -> None:
    """Refuse a file that cannot be written, or holds something else than a report.

    What junit and gradescope write has no mark, and programs write it anew.

    Raises:
        UsageError: with what to do about it.
    """
    common.check_output(path, "-o")
    if force or form in (ReportFormat.JUNIT, ReportFormat.GRADESCOPE):
        return
    try:
        with files.opened(path, None) as file:
            start = file.read(START_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return
    if start and not any(mark in start for mark in MARKS):
        text = f"{path} is there already, and is no report"
        raise UsageError(Problem(text, hint="name another file, or give --force"))


def made(
    runs: Sequence[RunPaths],
    settings: Settings,
    names: Sequence[str],
    form: ReportFormat,
) -> str:
    """Return the text of a report as html, md or json."""
    html = form is ReportFormat.HTML
    records = [places.record_of(paths) for paths in runs]
    found = [
        evidence.read(paths, record, places.unseen(paths), timelines=html)
        for paths, record in zip(runs, records, strict=True)
    ]
    whole = document.report(
        [one.run for one in found],
        _milestones(records, names, settings),
        _comparison(runs, records),
    )
    if form is ReportFormat.JSON:
        return f"{common.json_text(whole)}\n"
    sections = document_sections.sections(whole)
    if form is ReportFormat.MD:
        from runner.report import markdown

        return markdown.document(title(whole), sections, MOST_MARKDOWN)
    from runner.report import page

    timelines = {
        f"{one.run.record.id}/{path}": timeline
        for one in found
        for path, timeline in one.timelines.items()
    }
    return page.report(title(whole), sections, timelines)


def _comparison(
    runs: Sequence[RunPaths], records: Sequence[RunRecord]
) -> RunDiff | None:
    """Return what changed between two runs, the earlier first."""
    if len(runs) != 2:
        return None

    old, new = evidence.read_side(runs[0], runs[1], records[0], records[1])
    return diff.between(old, new)


def _milestones(
    records: Sequence[RunRecord], names: Sequence[str], settings: Settings
) -> list[Milestone]:
    """Return the milestones that are named, else those whose scripts the runs have.

    A file of a site's own that is wrong is left out, and told of.
    """
    folders = settings.milestones
    if names:
        return [milestones.find(name, folders) for name in dict.fromkeys(names)]
    found = []
    for name in milestones.names(folders):
        try:
            found.append(milestones.find(name, folders))
        except ConfigError as error:
            problems(error.problems)
    return checklist.concerning(found, records)


def title(report: Report) -> str:
    """Return the title of a report: its projects and its runs."""
    names = dict.fromkeys(PurePath(run.project).name for run in report.runs)
    runs = ", ".join(run.tag or run.run for run in report.runs)
    several = "runs" if len(report.runs) > 1 else "run"
    return f"{', '.join(names)}: {several} {runs}"


def _check_points(visibility: str, points: float) -> None:
    """Refuse what Gradescope would not take, with a UsageError."""
    if visibility not in VISIBILITIES:
        text = f'--visibility is "{visibility}"'
        raise UsageError(Problem(text, hint=f"there are {', '.join(VISIBILITIES)}"))
    if not (math.isfinite(points) and points > 0):
        raise UsageError(f"--points is {points:g}; expected a number above 0")


def _exported(
    runs: Sequence[RunPaths], form: ReportFormat, visibility: str, points: float
) -> str:
    """Return the runs as junit or gradescope.

    Raises:
        UsageError: some have not ended.
    """
    records = [(paths, places.record_of(paths)) for paths in runs]
    problems = [
        Problem(f"run {record.id} has not ended", hint=f"rai wait {record.id}")
        for _, record in records
        if not record.state.final
    ]
    if problems:
        raise UsageError(*problems)
    found = [ci.of_run(paths, record) for paths, record in records]
    if form is ReportFormat.JUNIT:
        return exports.document(found)
    return f"{common.json_text(exports.results(found, visibility, points))}\n"
