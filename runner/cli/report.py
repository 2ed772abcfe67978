"""`rai report RUN...`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runner import files
from runner.cli import common
from runner.cli.reporting import ReportFormat
from runner.terminal.streams import put, say


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

    The check-list of each milestone says what is there, what is missing, and which
    command would give it. Then come Op Times and correctness, run times, the kernels
    and API calls that together take over 90 % of the time, layers, what bounds each
    kernel, timelines, and what the commands printed. Several runs stand side by side;
    of two it says what changed.

    \b
    rai report latest --open            a page of HTML, in a browser
    rai report latest --format md       for an issue, or a report of one's own
    rai report before after -o both.html
    rai report latest --format junit|gradescope   for CI systems and autograders
    """
    from runner.cli import reporting
    from runner.cli.opening import show
    from runner.store import pages

    chosen = reporting.choice(form, output)
    reporting.check_points(visibility, points)
    paths = common.find_runs(runs)
    if output is not None:
        reporting.check_target(output, chosen, force=force)
    if chosen in (ReportFormat.JUNIT, ReportFormat.GRADESCOPE):
        text = reporting.exported(paths, chosen, visibility, points)
    else:
        text = reporting.made(paths, common.settings(), milestone or (), chosen)
    if output is not None:
        files.write(output, text.encode(errors="replace"))
        say(f"Wrote {output}.")
    elif chosen is ReportFormat.HTML or open_it:
        suffix = reporting.SUFFIXES[chosen]
        output = pages.keep(common.home(), "report", text, suffix)
        say(f"Wrote {output}, which is kept for a day; -o FILE keeps a report.")
    else:
        put(text)
    if open_it and output is not None:
        show(output)
