"""`rai run -p DIR`: the main job."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli import common

if TYPE_CHECKING:
    from runner.session import Run
    from runner.terminal.console import Console


def run(
    path: Annotated[
        Path, typer.Option("--path", "-p", help="The project's folder.")
    ] = Path(),
    engine: Annotated[
        str | None, typer.Option(help="auto, docker, local or bare (RAI_ENGINE).")
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help="strict or compatible (RAI_PROFILE).")
    ] = None,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Run the rest after a failure.")
    ] = False,
    progress: Annotated[
        str | None, typer.Option(help="auto, tty, plain or quiet (RAI_PROGRESS).")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Unpack the build folder to here."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would be sent, and stop.")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print the record on stdout; all output goes to stderr."
        ),
    ] = False,
    gpus: Annotated[
        str | None,
        typer.Option(
            metavar="N|UUID,...", help="GPUs, in place of the file's; 0 for none."
        ),
    ] = None,
    wait: Annotated[
        str | None,
        typer.Option(help="Wait this long for GPUs in use: 0, 10m (RAI_GPU_WAIT)."),
    ] = None,
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

    asked = session.Options(engine, profile, progress, gpus, wait, keep_going)
    if output is not None:
        _refuse_output(output)
    prepared = session.prepare(path, asked)
    console = Console(Mode(prepared.settings.progress), aside=as_json)
    if console.mode is not Mode.QUIET:
        common.warn(prepared.warnings)
    if queue:
        console.line(
            f"Warning: ignoring --queue {queue}: there are no queues", "yellow"
        )
    started = session.start(prepared)
    _show(started, console)
    done = started.record
    if as_json:
        common.print_json(record.plain(done))
    if output is not None and started.paths.build.exists():
        _bring_back(started, output, console)
    raise typer.Exit(done.verdict.reason.exit_code if done.verdict else 10)


def _refuse_output(output: Path) -> None:
    """Refuse a folder that cannot be made, before anything runs."""
    from runner import archive
    from runner.core.errors import UsageError

    if archive.taken(output):
        raise UsageError(
            f"--output {output} exists; name a new folder, or an empty one"
        )
    archive.folder_beside(output.absolute()).rmdir()


def _show(started: Run, console: Console) -> None:
    """Carry the run out while it is shown; signals end it cleanly."""
    from runner.cli import interrupt
    from runner.core.cancel import Cancel

    cancel = Cancel()
    try:
        with interrupt.heeded(cancel, console), closing(started.events(cancel)) as told:
            for event in told:
                console.show(event)
    except KeyboardInterrupt:
        left = f"Run {started.id} was left at once: rai show {started.id}"
        console.line(left, "red")
        raise


def _bring_back(done: Run, output: Path, console: Console) -> None:
    from runner import archive
    from runner.core import Limits

    caps = archive.build_caps(done.record.limits or Limits())
    came = archive.unpack(done.paths.build, output.absolute(), caps, root="build")
    console.line(f"The build folder is in {output}.", "green")
    for name in came.left_out:
        console.line(f"Warning: left out of it: {name}", "yellow")
