"""`rai run -p DIR`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli import common

if TYPE_CHECKING:
    from runner.session import Prepared, Run
    from runner.terminal.console import Console


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
    wait: common.Wait = None,
    detach: Annotated[
        bool,
        typer.Option(
            "--detach", "-d", help="Return at once with the run's id; the run goes on."
        ),
    ] = False,
    wait_for: Annotated[
        list[str] | None,
        typer.Option(metavar="RUN", help="Begin when this run has ended; repeatable."),
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

    options = session.Options(
        engine, profile, progress, gpus, wait, keep_going, after=tuple(wait_for or ())
    )
    if output is not None:
        _refuse_output(output, detach=detach)
    prepared = session.prepare(path, options)
    console = Console(Mode(prepared.settings.progress), to_stderr=as_json)
    if console.mode is not Mode.QUIET:
        common.warn(prepared.warnings)
    if queue:
        console.line(
            f"Warning: ignoring --queue {queue}: there are no queues", "yellow"
        )
    if detach:
        _detach(prepared, console, as_json=as_json)
        return
    started = session.start(prepared)
    _show(started, console)
    done = started.record
    if as_json:
        common.print_json(record.plain(done))
    if output is not None and started.paths.build.exists():
        _bring_back(started, output, console)
    raise typer.Exit(done.verdict.reason.exit_code if done.verdict else 10)


def _detach(prepared: Prepared, console: Console, *, as_json: bool) -> None:
    """Start the run and leave it; print its id."""
    from runner import session

    starting = session.detach(prepared)
    while True:
        try:
            console.show(next(starting))
        except StopIteration as end:
            run_id: str = end.value.id
            break
    text = f"Run {run_id} goes on by itself. Watch it: rai attach {run_id}"
    console.line(text, "green")
    if as_json:
        common.print_json({"id": run_id})
    else:
        print(run_id)


def _refuse_output(output: Path, *, detach: bool) -> None:
    """Refuse a folder that cannot be created, before anything runs."""
    from runner import archive
    from runner.core.errors import UsageError

    if detach:
        raise UsageError(
            "--output needs the run's end, and --detach does not wait for it; leave one"
            " out, and unpack the build folder later: rai pull RUN"
        )
    if archive.taken(output):
        raise UsageError(
            f"--output {output} exists; choose a new folder, or an empty one"
        )
    archive.folder_beside(output.absolute()).rmdir()


def _show(started: Run, console: Console) -> None:
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


def _bring_back(done: Run, output: Path, console: Console) -> None:
    from runner import archive
    from runner.core import Limits

    caps = archive.build_caps(done.record.limits or Limits())
    unpacked = archive.unpack(done.paths.build, output.absolute(), caps, root="build")
    console.line(f"The build folder is in {output}.", "green")
    for name in unpacked.left_out:
        console.line(f"Warning: left out of it: {name}", "yellow")
