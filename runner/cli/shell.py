"""`rai shell [RUN]`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Annotated

import typer

from runner.cli import common, running
from runner.core import Reason
from runner.core import events as ev
from runner.core.errors import Cancel, UsageError
from runner.core.events import Event
from runner.core.work import Secrets
from runner.execution import prepare
from runner.execution import shell as session
from runner.execution.prepare import Options, Prepared
from runner.execution.shell import Shell
from runner.report import phrases
from runner.terminal.console import Console
from runner.terminal.own import OwnTerminal
from runner.terminal.streams import problems


def shell(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN] [-- COMMAND...]",
            help=f"{common.RUN_HELP}  [default: latest]  After `--` a command in place"
            " of the shell.",
            show_default=False,
        ),
    ] = None,
    path: Annotated[
        Path | None,
        typer.Option(
            "--path",
            "-p",
            metavar="DIR",
            help="Not in a run, but as the next run of this project would be.",
        ),
    ] = None,
    engine: common.Engine = None,
    profile: common.Profile = None,
    gpus: Annotated[
        str | None,
        typer.Option(
            metavar="N|UUID,...",
            help="With -p: GPUs, in place of the file's; 0 for none.",
        ),
    ] = None,
    wait: common.Wait = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "-e",
            metavar="NAME[=VALUE]",
            help="A value that the run was given or its record masks; with -p a new"
            " variable. Without =VALUE from here. Repeatable.",
        ),
    ] = None,
    image: common.Image = None,
    output: running.Output = None,
    force: running.Force = False,
) -> None:
    """Open a shell where a run's commands ran.

    A new container or sandbox has the run's image, project, build folder, data,
    variables, GPUs and limits. The run and its record do not change: what the shell
    changes in the build folder is dropped at its end, or unpacked by -o. The exit
    status is 0 if the shell's is 0, else 1.

    \b
    rai shell                     in the latest run
    rai shell RUN -- make -j1     one command in place of the shell
    rai shell RUN -o DIR          with the build folder in DIR at the end
    rai shell -p . -e TOKEN       as the next run of this project would be
    """
    terminal = OwnTerminal()
    options = prepare.Options(
        engine,
        profile,
        gpus,
        wait,
        image=image,
        secrets=Secrets(common.variables(env or ())),
    )
    prepared, command = _prepared(words or [], path, options)
    running.refuse_output(output, prepared.request.project, force=force)
    opened = session.Shell(prepared, command, output, force=force)
    console = Console()
    file = prepared.request.spec.file  # its commands are not run here
    problems(w for w in prepared.warnings if not w.place or w.place.file != file)
    cancel = Cancel()
    with (
        common.cancel_on_signals(cancel, console, lambda: terminal.in_use),
        closing(opened.events(terminal, cancel)) as events,
        ExitStack() as raw,
    ):
        for event in events:
            raw.close()
            _show(event, console)
            if isinstance(event, ev.CommandStarted):
                for line in _introduction(opened, output):
                    console.line(line, "green")
                console.close()
                raw.enter_context(terminal.raw())
    raise typer.Exit(_end(opened, console, output))


def _prepared(
    words: Sequence[str], path: Path | None, options: Options
) -> tuple[Prepared, Sequence[str]]:
    """Return what was prepared, and the command in place of a shell."""
    at = words.index("--") if "--" in words else len(words)
    run, command = [*words[:at]], [*words[at + 1 :]]
    if path is not None:
        return prepare.prepare(path, options), [*run, *command]
    decided = {"--profile": options.profile, "--gpus": options.gpus}
    decided["--image"] = options.image
    if given := [name for name, value in decided.items() if value is not None]:
        text = f"{', '.join(given)}: the run decides that"
        raise UsageError(f"{text}; only a shell of a project (-p DIR) takes it")
    name, *more = run or ["latest"]
    return prepare.replay(common.find_run(name), options), [*more, *command]


def _show(event: Event, console: Console) -> None:
    """Show an event, unless it tells of a command or of packing."""
    hidden = (ev.Packing, ev.Packed, ev.CommandStarted, ev.CommandFinished)
    if not isinstance(event, hidden):
        console.show(event)


def _introduction(opened: Shell, output: Path | None) -> list[str]:
    build = "as the run left it" if opened.has_build else "empty"
    fate = f"comes back to {output}" if output else "is dropped at the end"
    limit = phrases.seconds(opened.limits.time_s)
    return [
        f"/build is {build}; what you change there {fate}.",
        f"The shell ends after {limit}, or if you press Ctrl-] three times.",
    ]


def _end(opened: Shell, console: Console, output: Path | None) -> int:
    """Tell how the shell ended; return the exit code."""
    ended = opened.ended
    if ended is None or ended.reason is Reason.CANCELLED:
        console.line("The shell was stopped.", "red")
    elif ended.reason is not None:
        words = phrases.words(ended.reason)
        console.line(f"The shell was ended by its {words}.", "red")
    elif ended.exit_code:
        console.line(f"The shell ended with exit status {ended.exit_code}.", "red")
    if opened.unpacked is not None:
        console.line(f"The build folder is in {output}.", "green")
        for name in opened.unpacked.left_out:
            console.line(f"Warning: left out of it: {name}", "yellow")
    if ended is None:
        return Reason.CANCELLED.exit_code
    if ended.reason is not None:
        return ended.reason.exit_code
    return Reason.COMMAND_FAILED.exit_code if ended.exit_code else 0
