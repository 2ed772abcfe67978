"""Shared by `rai run` and `rai replay`: carry out a run and show it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from runner.session import Run
    from runner.terminal.console import Console

Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Unpack the build folder to here."),
]
JsonFlag = Annotated[
    bool,
    typer.Option(
        "--json", help="Print the record on stdout; all output goes to stderr."
    ),
]


def refuse_output(output: Path | None, *, detach: bool = False) -> None:
    """Refuse a folder that cannot be created, before anything runs."""
    from runner import archive
    from runner.core.errors import UsageError

    if output is None:
        return
    if detach:
        raise UsageError(
            "--output needs the run's end, and --detach does not wait for it; leave one"
            " out, and unpack the build folder later: rai pull RUN"
        )
    if archive.taken(output):
        raise UsageError(
            f"--output {output} exists; choose a new folder, or an empty one"
        )
    archive.creatable(output.absolute())


def carry_out(started: Run, console: Console) -> None:
    """Carry out the run and show it; signals end it cleanly."""
    from runner.cli import interrupt
    from runner.core.cancel import Cancel

    cancel = Cancel()
    try:
        with (
            interrupt.cancel_on_signals(cancel, console),
            closing(started.events(cancel)) as events,
        ):
            for event in events:
                console.show(event)
    except KeyboardInterrupt:
        text = f"Run {started.id} interrupted. See it again: rai show {started.id}"
        console.line(text, "red")
        raise


def bring_back(done: Run, output: Path | None, console: Console) -> None:
    """Unpack the build folder, if there is one and ``output`` asks for it."""
    from runner import archive
    from runner.core import Limits

    if output is None or not done.paths.build.exists():
        return
    caps = archive.build_caps(done.record.limits or Limits())
    unpacked = archive.unpack(done.paths.build, output.absolute(), caps, root="build")
    console.line(f"The build folder is in {output}.", "green")
    for name in unpacked.left_out:
        console.line(f"Warning: left out of it: {name}", "yellow")
