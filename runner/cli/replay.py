"""`rai replay RUN`."""

from __future__ import annotations

from typing import Annotated

import typer

from runner.cli import common, running
from runner.execution import prepare, session
from runner.report import diff, diff_blocks, evidence
from runner.store.home import record_of
from runner.terminal.console import Console
from runner.terminal.layout import blocks
from runner.terminal.streams import problems


def replay(
    run: common.RunArgument,
    engine: common.Engine = None,
    values: Annotated[
        list[str] | None,
        typer.Option(
            "-e",
            metavar="NAME[=VALUE]",
            help="A value that the record masks, or one that the run was given by -e;"
            " without =VALUE from the environment. Repeatable.",
        ),
    ] = None,
    quiet: common.Quiet = False,
    output: running.Output = None,
    force: running.Force = False,
    as_json: running.JsonFlag = False,
    wait: common.Wait = None,
) -> None:
    """Run an earlier run again, and show what differed.

    The new run has the earlier one's files, build file, options, engine and image (the
    same digest), even if the project or the image of that name has changed. The exit
    status is that of the new run.
    """
    options = prepare.Options(engine=engine, gpu_wait=wait)
    paths = common.find_run(run)
    before = record_of(paths)
    prepared = prepare.replay(paths, options, common.variables(values or ()))
    project = prepared.request.project
    running.refuse_output(output, project, force=force)
    console = Console(
        quiet,
        to_stderr=as_json,
        unpacks=output is not None,
    )
    if not quiet:
        problems(prepared.warnings)
    for text in session.tidy(prepared.settings, spare=paths.id):
        console.line(text, "yellow")
    started = session.start(prepared)
    running.run_and_show(started, console)
    after = started.record
    found = diff.between(*evidence.read_side(paths, started.paths, before, after))
    if as_json:
        common.print_json(after, differences=diff.differences(found))
    elif not quiet:
        blocks(diff_blocks.blocks(found), to_stderr=True)
    running.bring_back(started, output, console, force=force)
    raise typer.Exit(common.status(after))
