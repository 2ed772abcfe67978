"""`rai run -p DIR`."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec.structs import replace

from runner import pack
from runner.cli import ci, common, gating, remotely, running, suggestions
from runner.core import Severity, quantities, record
from runner.core.addresses import SlurmTarget
from runner.core.errors import NotAllowedError, UsageError
from runner.core.events import Event, Finished
from runner.core.work import Secrets
from runner.engines.base import WithResult
from runner.execution import prepare, session
from runner.execution.project import build_file, folder_project
from runner.figures.gate import parse
from runner.pack import Survey
from runner.report.blocks import Table
from runner.store.paths import RunPaths
from runner.system.process import Detached, python
from runner.terminal.console import Console
from runner.terminal.layout import blocks
from runner.terminal.streams import problems, say

SHOWN = 1000
"""The most lines of a list; JSON has more."""


def run(
    directory: common.Directory = None,
    path: common.ProjectPath = None,
    engine: common.Engine = None,
    profile: common.Profile = None,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Go on after a failed command.")
    ] = False,
    quiet: common.Quiet = False,
    output: running.Output = None,
    force: running.Force = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would be sent, and stop.")
    ] = False,
    as_json: running.JsonFlag = False,
    gpus: common.Gpus = None,
    wait: common.Wait = None,
    detach: Annotated[
        bool,
        typer.Option("--detach", "-d", help="Print the run's id and leave it running."),
    ] = False,
    wait_for: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RUN",
            autocompletion=suggestions.unended,
            help="Start after this run finishes. Repeatable.",
        ),
    ] = None,
    env: common.Env = None,
    only: common.Only = None,
    image: common.Image = None,
    repeat: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            show_default=False,
            help="Run the measuring commands N times in the same container.",
        ),
    ] = 1,
    command: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|N",
            autocompletion=suggestions.commands,
            help="What --repeat repeats, as for --only. Repeatable.",
        ),
    ] = None,
    fail_if: gating.FailIf = None,
    baseline: gating.Baseline = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", help="Run again each time a file is saved, until Ctrl-C."
        ),
    ] = False,
    in_ci: ci.Ci = None,
    junit: ci.Junit = None,
    on: common.OnPlace = None,
) -> None:
    """Run a project's rai_build.yml and keep a record of it.

    \b
    rai run                       the project of this folder
    rai run DIR --only m2.1       one command of another
    rai run -e TOKEN -e N=100     with variables, whose values stay secret
    rai run --repeat 10           measured ten times
    rai run --watch -o build      again after each save
    rai run --fail-if "correctness<0.85"    exit with 7 if that holds
    """
    project = common.project(directory, path)
    if dry_run:
        _dry_run(project, as_json=as_json)
        return
    gate = parse(fail_if or ())
    if gate and detach:
        raise UsageError(
            "--fail-if needs the run's end, and --detach does not wait for it; leave"
            " one out, and judge it later: rai diff BASELINE RUN --fail-if CONDITION"
        )
    if repeat == 1 and command:
        raise UsageError("--command is for the repeats of --repeat N; give that too")
    if junit and (detach or watch):
        other = "--detach" if detach else "--watch"
        raise UsageError(f"--junit is written at the run's end; leave {other} out")

    options = prepare.Options(
        engine,
        profile,
        gpus,
        wait,
        keep_going,
        after=tuple(wait_for or ()),
        secrets=Secrets(common.variables(env or ())),
        only=tuple(only or ()),
        image=image,
        repeat=repeat,
        measured=tuple(command or ()),
        stop_grace_s=ci.grace_s(in_ci),
    )
    to = remotely.destination(on, options)
    if to is not None:
        given = {"--watch": watch, "--wait-for": wait_for}
        remotely.refuse(to, given)
        options = replace(options, elsewhere=not isinstance(to, SlurmTarget))

    # It loads its modules while this process loads the same and packs the project.
    loading = (
        Detached(python("runner.execution.worker")) if detach and to is None else None
    )
    if watch:
        from runner.cli import watching

        one = "--detach" if detach else "--json" if as_json else ""
        one = one or ("--fail-if" if gate else "")
        assert not isinstance(to, SlurmTarget)
        watching.watch(
            project, options, output, to, force=force, quiet=quiet, one_run=one
        )
    with ci.session(in_ci, junit, answer=as_json or detach) as reported:
        prepared = prepare.prepare(project, options)
        rounds = prepared.request.asked.repeat
        before = gating.baseline(gate, baseline, rounds=rounds)
        running.refuse_output(
            output,
            prepared.request.project,
            force=force,
            detach=detach,
        )
        console = reported.console(quiet, to_stderr=as_json, unpacks=output is not None)
        if not quiet:
            reported.warn(prepared.warnings)
        for text in session.tidy(prepared.settings):
            console.line(text, "yellow")
        if to is not None:
            started = remotely.start(to, prepared, console, engine, warnings=detach)
            if detach:
                _left(started.id, console, as_json=as_json)
                return
            remotely.watch(started, console, reported, asks=not reported.on)
        elif detach:
            _detach(session.detach(prepared, loading), console, as_json=as_json)
            return
        else:
            started = local = session.start(prepared)
            running.run_and_show(local, console, reported)
        done = started.record
        status = common.status(done)
        judged = None
        if gate and status == 0:
            judged = gating.of_run(gate, before, done)
            reported.concluded(judged.headline("rai run"), (), judged)
        if as_json:
            found = {"gate": judged} if gate else {}
            common.print_json(done, **found)
        running.bring_back(started, output, console, force=force)
        if judged:
            status = gating.print_outcome(judged, console.line)
        elif gate:
            console.line("The gate is not judged: the run failed.", "yellow")
    raise typer.Exit(status)


def _detach(
    starting: Generator[Event, None, RunPaths], console: Console, *, as_json: bool
) -> None:
    """Start the run and leave it; print its id.

    If it ended before it began, exit with its status.
    """
    started = WithResult(starting)
    for event in started:
        console.show(event)
        if isinstance(event, Finished):
            raise typer.Exit(event.verdict.reason.exit_code)
    _left(started.result.id, console, as_json=as_json)


def _left(run_id: str, console: Console, *, as_json: bool) -> None:
    """Print the id of a run that is left."""
    text = f"Run {run_id} goes on by itself. Watch it: rai attach {run_id}"
    console.line(text, "green")
    if as_json:
        common.print_json({"id": run_id})
    else:
        say(run_id)


def _dry_run(path: Path, *, as_json: bool) -> None:
    """Print the files of the project's folder that would be sent or left out."""
    project = folder_project(build_file(path).parent, common.settings())
    found, most = project.survey(), project.caps.members
    if as_json:
        common.print_json(_plain(found, most))
    else:
        _print(found)
    problems(found.warnings)
    errors = [p for p in found.problems if p.severity is Severity.ERROR]
    if errors := [*errors, *pack.exceeded(found, project.caps)]:
        raise NotAllowedError(*errors)


def _plain(found: Survey, most: int) -> dict[str, Any]:
    shown: dict[str, Any] = record.plain(replace(found, members=found.members[:most]))
    counts = {"member_count": len(found.members), "total_bytes": found.total_bytes}
    return {**shown, **counts}


def _print(found: Survey) -> None:
    count, total = len(found.members), quantities.size(found.total_bytes)
    entries = "1 entry" if count == 1 else f"{count:,} entries"
    sent = [(quantities.size(m.size_bytes), m.name) for m in found.members]
    left_out = [(item.name, item.why) for item in found.left_out]
    shown = [
        _table(f"Would be sent: {entries}, {total}", ("size", "name"), sent, count)
    ]
    if left_out:
        heads = ("name", "by")
        shown.append(_table("Left out", heads, left_out, found.left_out_count))
    blocks(shown)


def _table(
    title: str, heads: tuple[str, str], rows: Sequence[tuple[str, str]], count: int
) -> Table:
    more = count - SHOWN
    cut = [*rows[:SHOWN], ("", f"... and {more:,} more")] if more > 0 else rows
    right = frozenset({0}) if heads[0] == "size" else frozenset[int]()
    return Table(title, heads, tuple(cut), right)
