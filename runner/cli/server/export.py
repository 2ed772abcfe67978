"""`rai server export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runner.cli.server import opening
from runner.core.errors import UsageError
from runner.terminal.streams import say


def export(
    milestone: Annotated[
        str, typer.Argument(metavar="MILESTONE", help="What is exported.")
    ],
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder that is made.")
    ],
    state: opening.State = None,
) -> None:
    """Write grades.csv, and a folder for each team with what it submitted.

    A folder has the sources, the report, the output and measurement.json of the
    submission that counts: for MOSS, JPlag or eyes.
    """
    from runner.server import grades

    with opening.opened(state) as (folder, store):
        grading = opening.grading(folder, store)
        found = grading.milestone(milestone)
        try:
            directory.mkdir(mode=0o700)
        except OSError as error:
            text = f"{directory} cannot be made: {error.strerror}"
            raise UsageError(text) from error
        teams, problems = grades.export(grading, store, folder, found, directory)
        opening.note(store, "export", f"{found.name} {grading.term} to {directory}")
    for problem in problems:
        say(f"warning: {problem}")
    of = f"{teams} team{'s'[: teams != 1]}"
    say(f"Wrote {directory / grades.FILE} and the submissions of {of}")
