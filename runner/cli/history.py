"""`rai history [--project DIR|WORD] [--branch NAME] ... [--format F] [--plot]`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runner.cli import choosing, common, listing

MOST_LISTED = 10
MOST_PLOTTED = 100


def history(
    number: Annotated[
        int | None,
        typer.Option(
            "--number",
            "-n",
            min=1,
            help=f"How many runs to list.  [default: {MOST_LISTED}; {MOST_PLOTTED} to"
            " plot]",
        ),
    ] = None,
    project: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|WORD",
            help="Runs of the project in this folder (`.`, or with a slash), or of"
            " those whose folder's name has this word.",
        ),
    ] = None,
    branch: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Runs on this branch; `*` and `?` match."),
    ] = None,
    reason: Annotated[
        list[str] | None,
        typer.Option(
            metavar="REASON",
            help="Runs that ended so: `done`, `time_limit`, ..., or `failed`, which is"
            " all but done and cancelled. Repeatable.",
        ),
    ] = None,
    tag: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Runs with this tag; `*` and `?` match."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Runs that began then or later: `7d` (ago), `14:05`, a date with or"
            " without a time of day.",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Runs that began before then.")
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(
            metavar="WORD",
            help="Runs of which a command's name or line has this word; a plot has"
            " these commands only.",
        ),
    ] = None,
    sort: Annotated[
        str,
        typer.Option(
            metavar="ORDER",
            help="`when` (newest first), `took` or `size` (most first), or `op-time`"
            " (fastest first).",
        ),
    ] = "when",
    reverse: Annotated[
        bool, typer.Option("--reverse", help="The other way round.")
    ] = False,
    as_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="`table`, `json` or `csv`.  [default: table]",
        ),
    ] = None,
    as_json: common.JsonFlag = False,
    plot: Annotated[
        bool,
        typer.Option(
            "--plot", help="Draw the Op Times of these runs, commit by commit."
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE.svg",
            help="Draw them to this file, as SVG.",
        ),
    ] = None,
) -> None:
    """List finished runs, newest first, or draw their Op Times.

    The options choose runs for which all of them hold. -n counts after the sorting.
    """
    chosen = choosing.chosen(
        {
            "project": project,
            "branch": branch,
            "tag": tag,
            "since": since,
            "until": until,
            "command": command,
        },
        reason or (),
        choosing.HistoryForm(sort, reverse, as_format, as_json, plot, output),
    )
    if chosen.drawn:
        from runner.cli import plotting

        plotting.draw(chosen.query, number or MOST_PLOTTED, output)
    else:
        listing.history(chosen, number or MOST_LISTED)
