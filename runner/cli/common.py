"""Shared by most commands: options, settings, the home, RUN, `--json`, and signals."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from runner import core
from runner.cli import suggestions
from runner.core import Problem, Reason, RunRecord, Severity, record
from runner.core.addresses import slurm_target
from runner.core.errors import Cancel, UsageError
from runner.core.screen import json_safe
from runner.store.settings import ENGINES, SETTINGS, Settings
from runner.terminal.console import Console
from runner.terminal.streams import problems, say, write_line

if TYPE_CHECKING:
    from runner.client.profile import ProfileEntry
    from runner.store.paths import Home, RunPaths


def _option(key: str, metavar: str, *words: str) -> Any:  # noqa: ANN401 - as typer types its options
    """Make a setting's option. Its variable is read with the others, not by typer.

    Typer would read it as if the option were given, and a wrong value be reported so.
    """
    setting = next(setting for setting in SETTINGS if setting.key == key)
    text = setting.meaning[:1].upper() + setting.meaning[1:]
    return typer.Option(
        setting.option,
        metavar=metavar,
        help=f"{text}.",
        autocompletion=suggestions.one_of(*words) if words else None,
    )


Engine = Annotated[str | None, _option("engine", "ENGINE", *ENGINES)]
Profile = Annotated[str | None, _option("profile", "PROFILE", *core.Profile)]

Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Show the program's output and failures only."),
]
Wait = Annotated[str | None, _option("gpu_wait", "TIME")]
Older = Annotated[str | None, _option("keep_for", "TIME")]
Size = Annotated[str | None, _option("keep_size", "SIZE")]

Gpus = Annotated[
    str | None,
    typer.Option(
        metavar="N|UUID,...", help="GPUs, in place of the build file's; 0 for none."
    ),
]

Env = Annotated[
    list[str] | None,
    typer.Option(
        "-e",
        metavar="NAME[=VALUE]",
        help="Set a secret variable; without =VALUE copy it from here. Repeatable.",
    ),
]

Only = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME|N",
        autocompletion=suggestions.commands,
        help="Run only this command: its name, number or a word in it. Repeatable.",
    ),
]

Image = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Image, in place of the build file's."),
]
RUN_HELP = "A run's id, its beginning, its tag, or `latest`."

Directory = Annotated[
    Path | None,
    typer.Argument(
        metavar="[DIR]", help="Project folder, or its build file.  [default: .]"
    ),
]

ProjectPath = Annotated[
    Path | None,
    typer.Option("--path", "-p", metavar="DIR", help="Project folder, same as DIR."),
]

ProjectFolder = Annotated[
    Path | None,
    typer.Option(
        "--path", "-p", metavar="DIR", help="The project's folder.  [default: .]"
    ),
]

On = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="URL",
        autocompletion=suggestions.places,
        help="The server, or `here` for this machine.",
    ),
]

OnPlace = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="PLACE",
        autocompletion=suggestions.places,
        help="Run on a server (its URL), slurm[:PARTITION], or here.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Show what would be removed, and exit."),
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]

RunArgument = Annotated[
    str,
    typer.Argument(metavar="RUN", help=RUN_HELP, autocompletion=suggestions.runs),
]

RunOrLatest = Annotated[
    str,
    typer.Argument(metavar="[RUN]", help=RUN_HELP, autocompletion=suggestions.runs),
]

UnendedRun = Annotated[
    str,
    typer.Argument(metavar="[RUN]", help=RUN_HELP, autocompletion=suggestions.unended),
]

UnendedRuns = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RUN...]",
        help=f"{RUN_HELP}  [default: latest]",
        autocompletion=suggestions.unended,
    ),
]

RunArguments = Annotated[
    list[str],
    typer.Argument(metavar="RUN...", help=RUN_HELP, autocompletion=suggestions.runs),
]


def project(directory: Path | None, path: Path | None) -> Path:
    """Return the project's folder, given as an argument or by `-p`.

    Raises:
        UsageError: both are given and differ.
    """
    if directory and path and directory.resolve() != path.resolve():
        text = f"two projects are given: {directory} and -p {path}; leave one out"
        raise UsageError(text)
    return directory or path or Path()


def settings(**options: str | None) -> Settings:
    """Return the settings with these options, and print their warnings."""
    from runner.store import settings

    found, warnings = settings.load(os.environ, settings.settings_files(), options)
    problems(warnings)
    return found


def server(on: str | None) -> ProfileEntry:
    """Return the server that runs go to, or that ``--on`` names.

    Raises:
        UsageError: there is none.
        LoginNeededError: the user is not logged in there.
    """
    from runner.client import profile

    found = settings()
    if slurm_target(on or found.server or ""):
        hint = "`rai runs` lists your runs there, `squeue` all jobs"
        raise UsageError(Problem("runs go to Slurm, not to a server", hint=hint))
    entry = profile.chosen(on, found)
    if entry is None:
        text = "runs stay on this machine: no server is named"
        raise UsageError(Problem(text, hint="log in at one: rai login URL"))
    return entry


def warn_of(text: str, hint: str = "") -> None:
    """Print one warning on stderr."""
    problems([Problem(text, hint=hint, severity=Severity.WARNING)])


def home() -> Home:
    """Return the home folder, after recording runs whose process died as lost.

    What such runs left on this machine is removed.
    """
    return opened()[0]


def opened() -> tuple[Home, Settings]:
    """Return the home folder as ``home`` does, and the settings that name it."""
    from runner import engines
    from runner.execution import places

    engines.reap()
    found = settings()
    return places.open_home(found.home), found


def find_run(run: str, *, fresh: bool = True) -> RunPaths:
    """Return the folder of the run that RUN names.

    If it shall be ``fresh``, the copy of a run on a server is brought up to date.
    """
    from runner.execution import places

    found = places.find(home(), run)
    if fresh:
        from runner.cli import copies

        copies.refresh([found])
    return found


def find_runs(given: Iterable[str], *, fresh: bool = True) -> list[RunPaths]:
    """Return the folders of the runs that were named, each once, as ``find_run`` does.

    Raises:
        UsageError: some name no run, or several; carries all of these problems.
    """
    from runner.execution import places

    _, found, wrong = look_up(given, places.find)
    if wrong:
        raise UsageError(*wrong)
    if fresh:
        from runner.cli import copies

        copies.refresh(found)
    return found


def look_up(
    given: Iterable[str], find: Callable[[Home, str], RunPaths]
) -> tuple[Home, list[RunPaths], list[Problem]]:
    """Return the home, the runs that ``find`` finds, each once, and every problem."""
    opened = home()
    found: list[RunPaths] = []
    wrong: list[Problem] = []
    for name in given:
        try:
            found.append(find(opened, name))
        except UsageError as error:
            wrong += error.problems
    return opened, list(dict.fromkeys(found)), wrong


def confirm(question: str, *, yes: bool) -> None:
    """Ask at a terminal; return if the answer is yes.

    Raises:
        UsageError: there is no terminal to ask at.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("cannot ask for confirmation here: add --yes")
    if not typer.confirm(question, err=True):
        say("Nothing was removed.", to_stderr=True)
        raise typer.Exit


def warn_elsewhere(*runs: RunPaths) -> None:
    """Warn of runs whose machine cannot be seen from here: it may be gone."""
    from runner.execution import places
    from runner.report import phrases

    away = {paths.id: places.unseen(paths) for paths in runs}
    for run, on in away.items():
        if on:
            warn_of(f"run {run}: {phrases.elsewhere(run, on)}")


def print_json(value: object, **more: object) -> None:
    """Print a value as JSON on stdout; ``more`` are further members of a struct's."""
    whole = {**record.plain(value), **more} if more else value
    write_line(json_text(whole), sys.stdout)


def json_text(value: object) -> str:
    """Return structs and what is made of them as JSON that steers no terminal."""
    found = _plain(value)
    try:
        text = json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(found), indent=2, ensure_ascii=False)
    return json_safe(text)


def _plain(value: object) -> Any:  # noqa: ANN401 - JSON values have no narrower type
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_plain, value))
    return record.plain(value)


def _finite(value: Any) -> Any:  # noqa: ANN401 - as above
    """Return a value in which infinity, which JSON lacks, is the greatest number.

    The sum of absurd figures that a run printed may be infinite.
    """
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_finite, value))
    if not isinstance(value, float) or math.isfinite(value):
        return value
    greatest = sys.float_info.max
    return None if math.isnan(value) else math.copysign(greatest, value)


def status(run: RunRecord) -> int:
    """Return the exit status of a command that shows a run to its end."""
    return (run.verdict.reason if run.verdict else Reason.INTERNAL).exit_code


def no_build_folder(run: RunRecord) -> Problem:
    """Return why a run has no build folder, and when it will have one."""
    text = f"run {run.id} has no build folder"
    if run.state.final:
        return Problem(f"{text}: it ended before one came back")
    hint = f"it comes back at the end: rai wait {run.id}"
    return Problem(f"{text} yet: it is {run.state}", hint=hint)


_DEVICES = frozenset({"/dev", "/dev/fd", "/proc/self/fd"})
"""What is here may lead to a file, as /dev/stdout does, and is none."""


def check_output(path: Path, option: str) -> None:
    """Refuse the file of an option that cannot be written, before any work is done.

    Raises:
        UsageError: its folder is not there or not writable, or it is no regular file,
            which would be replaced by one.
    """
    if path.is_dir():
        text = f"{option} {path}: it is a folder"
        raise UsageError(Problem(text, hint="name a file"))
    folder = path.parent
    if str(folder.absolute()) in _DEVICES or (path.exists() and not path.is_file()):
        text = f"{option} {path}: it is a device or a pipe"
        raise UsageError(Problem(text, hint="name a file"))
    if not folder.is_dir():
        text = f"{option} {path}: there is no folder {folder}"
        raise UsageError(Problem(text, hint="make it first"))
    if not os.access(folder, os.W_OK):
        text = f"{option} {path}: the folder {folder} cannot be written"
        raise UsageError(Problem(text, hint="name another"))


def variables(words: Sequence[str]) -> dict[str, str]:
    """Parse what -e takes: NAME=value, or NAME for a variable of this process.

    Raises:
        UsageError: this process has no such variable, or one is given two values;
            carries every problem.
    """
    pairs = [word.partition("=") for word in words]
    hint = "export it first, or write -e NAME=value"
    if missing := [n for n, equals, _ in pairs if not equals and n not in os.environ]:
        raise UsageError(
            *(
                Problem(f"-e {n}: the environment has no {n}", hint=hint)
                for n in missing
            )
        )
    found: dict[str, str] = {}
    twice: list[str] = []
    for name, equals, text in pairs:
        value = text if equals else os.environ[name]
        if found.setdefault(name, value) != value:
            twice.append(name)
    if twice:
        text = "is given twice, with different values"
        hint = "leave one out"
        raise UsageError(*(Problem(f"-e {name} {text}", hint=hint) for name in twice))
    return found


STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)


@contextmanager
def cancel_on_signals(
    cancel: Cancel, console: Console, silent: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    """Request a cancel on the first Ctrl-C, TERM or QUIT; interrupt on the second.

    HUP, which a closed terminal sends, requests a cancel too. HUP and QUIT stay ignored
    if they were, as under nohup. While ``silent``, nothing is said of a cancel.
    """
    stopping = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopping
        if stopping:
            raise KeyboardInterrupt
        stopping = True
        cancel.request()
        if not silent():
            # It may come while stderr is written, which no other write may enter.
            with suppress(RuntimeError):
                console.line("Stopping; press Ctrl-C again to quit now.", "yellow")

    def hang_up(number: int, frame: FrameType | None) -> None:
        # The shell and the kernel both send it, so ignore the second one, even later.
        # Nobody is left to read a line.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        cancel.request()

    handlers = {**dict.fromkeys(STOP_SIGNALS, stop), signal.SIGHUP: hang_up}
    for number in (signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            del handlers[number]
    before = {s: signal.signal(s, handler) for s, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, handler)
