"""`rai report RUN...`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
            help="Write to this file.  [default: report-RUN.html; md and json go to"
            " stdout]",
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
    pictures: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write the pictures of a report as md to this folder, as SVG. Without"
            " it they are left out; the tables have their figures.",
        ),
    ] = None,
    most: Annotated[
        str,
        typer.Option(
            "--size",
            help="The most that a report as md has; the end is left out. An issue of"
            " GitHub takes 64KiB.",
        ),
    ] = "512KiB",
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
    """
    from runner import files
    from runner.cli import reporting
    from runner.cli.opening import show

    wanted = reporting.choice(form, output, most, pictures)
    paths = common.find_runs(runs)
    target = reporting.target(wanted.form, output, paths, as_file=open_it)
    if target is not None:
        reporting.check_target(target, force=force)
    if wanted.pictures is not None:
        reporting.make_pictures(wanted.pictures)
    text = reporting.made(paths, common.settings(), milestone or (), wanted, target)
    if target is None:
        put(text)
        return
    files.write(target, text.encode(errors="replace"))
    say(f"Wrote {target}.")
    if open_it:
        show(target)
