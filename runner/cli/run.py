"""`rai run -p DIR`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runner.cli import common, running


def run(
    path: Annotated[
        Path, typer.Option("--path", "-p", help="The project's folder.")
    ] = Path(),
    engine: common.Engine = None,
    profile: common.Profile = None,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Run the rest after a failure.")
    ] = False,
    progress: common.Progress = None,
    output: running.Output = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would be sent, and stop.")
    ] = False,
    as_json: running.JsonFlag = False,
    gpus: Annotated[
        str | None,
        typer.Option(
            metavar="N|UUID,...", help="GPUs, in place of the file's; 0 for none."
        ),
    ] = None,
    wait: common.Wait = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q", hidden=True)] = None,
) -> None:
    """Run a project's rai_build.yml and keep a record of it."""
    if dry_run:
        from runner.cli.dry_run import show

        show(path, as_json)
        return
    from runner import session
    from runner.core import record
    from runner.terminal.console import Console, Mode

    options = session.Options(engine, profile, progress, gpus, wait, keep_going)
    running.refuse_output(output)
    prepared = session.prepare(path, options)
    console = Console(Mode(prepared.settings.progress), to_stderr=as_json)
    if console.mode is not Mode.QUIET:
        common.warn(prepared.warnings)
    if queue:
        console.line(
            f"Warning: ignoring --queue {queue}: there are no queues", "yellow"
        )
    started = session.start(prepared)
    running.carry_out(started, console)
    done = started.record
    if as_json:
        common.print_json(record.plain(done))
    running.bring_back(started, output, console)
    raise typer.Exit(done.verdict.reason.exit_code if done.verdict else 10)
