"""Shared by `rai run` and `rai replay`: make a run and show it."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated

import typer

from runner import pack
from runner.cli import common
from runner.cli.ci import CiSession
from runner.core.errors import Cancel, RaiError, UsageError
from runner.execution.session import Run, StartedRun
from runner.store import outputs
from runner.terminal.console import Console

Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="DIR", help="Unpack the build folder into DIR."
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Replace the folder of -o, if rai unpacked it.",
    ),
]
JsonFlag = Annotated[
    bool,
    typer.Option("--json", help="Print the record on stdout, all output on stderr."),
]


def refuse_output(
    output: Path | None,
    project: Path,
    *,
    force: bool,
    detach: bool = False,
) -> None:
    """Refuse a folder that cannot be created or replaced, before anything runs."""
    if output is None:
        if force:
            raise UsageError("--force replaces the folder of --output; name it")
        return
    if detach:
        raise UsageError(
            "--output needs the run's end, and --detach does not wait for it; leave one"
            " out, and unpack the build folder later: rai pull RUN"
        )
    outputs.check(output, project, force=force)
    pack.creatable(outputs.place(output))


def run_and_show(
    started: Run, console: Console, reported: CiSession | None = None
) -> None:
    """Run it and show it; signals end it cleanly.

    However it ends, it is ``reported`` to a CI system.
    """
    cancel = Cancel()
    try:
        with (
            common.cancel_on_signals(cancel, console),
            closing(started.events(cancel)) as events,
        ):
            for event in events:
                console.show(event)
    except KeyboardInterrupt:
        kept = "" if started.paths.build.exists() else "; its build folder is not kept"
        again = f"See it again: rai show {started.id}"
        console.line(f"Run {started.id} interrupted{kept}. {again}", "red")
        raise
    finally:
        if reported is not None:
            report(started, reported)


def report(ended: StartedRun, reported: CiSession) -> None:
    """Tell a CI system of a run; one whose record cannot be read has its own error."""
    with suppress(RaiError):
        reported.ended(ended.paths, ended.record, ended.places)


def bring_back(
    done: StartedRun, output: Path | None, console: Console, *, force: bool
) -> None:
    """Unpack the build folder, if there is one and ``output`` asks for it."""
    if output is None or not done.paths.build.exists():
        return
    unpacked = outputs.bring_back(
        done.paths.build, output, done.build_caps, done.project, force=force
    )
    console.line(f"The build folder is in {output}.", "green")
    for name in unpacked.left_out:
        console.line(f"Warning: left out of it: {name}", "yellow")
