"""What a shell offers at the end of a command line; `rai completion` calls it.

    rai __complete WORD... LAST

The words are those after `rai`; LAST is the one to complete, which may be empty. Every
candidate is a line; FILES or FOLDERS alone leaves it to the shell. An error says
nothing: what is printed while somebody types is in the way.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

WORD = "__complete"
FILES, FOLDERS = ":files", ":folders"
MOST = 50
"""The most names that are offered at a time."""

OWN_OPTIONS = ("--help", "--version", "--debug", "--path")
SHELLS = ("bash", "zsh", "fish")
UNENDED = ("attach", "cancel", "wait")
"""The commands for runs that have not ended."""

SAFE = re.compile(r"[\w@%+=:,./-]+")
"""What a shell takes as it is: bash quotes nothing, and some words are a project's."""

Command = Callable[[str], Any]
"""Returns a command, or a group of commands, by its name."""


def show(words: Sequence[str], commands: Collection[str], command: Command) -> None:
    """Print what a shell offers."""
    with suppress(Exception):
        *before, last = words or [""]
        before = [word for word in before if word]
        for line in offered(before, last, commands, command):
            if SAFE.fullmatch(line):
                print(line)


def offered(
    before: Sequence[str], last: str, commands: Collection[str], command: Command
) -> list[str]:
    """Return the candidates for the last word of a command line."""
    if not before:
        return _beginning(last, OWN_OPTIONS if last.startswith("-") else commands)
    named = before[0] in commands
    name, rest = (before[0], list(before[1:])) if named else ("run", list(before))
    if not (named or before[0].startswith("-")):
        return []
    found = command(name)
    while (under := getattr(found, "commands", None)) is not None:
        if not rest:
            return _beginning(last, under)
        found = under[rest.pop(0)]
    return _of_command(name, found, rest, last)


def _of_command(
    name: str,
    command: Any,  # noqa: ANN401 - typer hides the type
    words: list[str],
    last: str,
) -> list[str]:
    options = {o: p for p in command.params for o in (*p.opts, *p.secondary_opts)}
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    waiting: Any = None
    for word in words:
        if waiting is not None:
            waiting = None
        elif word.startswith("-") and word != "-":
            given = options.get(word)
            waiting = given if given is not None and not given.is_flag else None
        elif arguments and arguments[0].nargs == 1:
            arguments.pop(0)
    option, equals, value = last.partition("=")
    if waiting is not None:
        return _values(name, waiting, last, words)
    if equals and option in options:
        found = _values(name, options[option], value, words)
        return [w if w in (FILES, FOLDERS) else f"{option}={w}" for w in found]
    if last.startswith("-"):
        shown = (o for o, p in options.items() if not getattr(p, "hidden", False))
        return _beginning(last, [*(o for o in shown if o.startswith("--")), "--help"])
    return _values(name, arguments[0], last, words) if arguments else []


def _values(
    name: str,
    parameter: Any,  # noqa: ANN401 - typer hides the type
    prefix: str,
    words: list[str],
) -> list[str]:
    """Return the values of an option or argument that begin with a prefix."""
    from runner.cli.choosing import FAILED, FORMATS
    from runner.core import Profile, Reason
    from runner.store.query import RunOrder
    from runner.store.settings import ENGINES, SETTINGS

    match parameter.name:
        case "engine":
            return _beginning(prefix, ENGINES)
        case "profile":
            return _beginning(prefix, list(Profile))
        case "key":
            return _beginning(prefix, [setting.key for setting in SETTINGS])
        case "shell":
            return _beginning(prefix, SHELLS)
        case "run" | "runs" | "other" | "baseline" | "wait_for":
            return _runs(prefix, active=name in UNENDED)
        case "on":
            return _beginning(prefix, ["here", *_slurm(), *_servers()])
        case "server":
            return _beginning(prefix, _servers())
        case "image":
            return _beginning(prefix, _images())
        case "only":
            return _beginning(prefix, _commands(words))
        case "command" if name == "run":
            return _beginning(prefix, _commands(words))
        case "reason":
            return _beginning(prefix, [*Reason, FAILED])
        case "sort":
            return _beginning(prefix, list(RunOrder))
        case "as_format":
            return _beginning(prefix, FORMATS)
        case "branch" | "tag" as column:
            return sorted(_known(column, prefix))
        case "output" if name == "history":
            return [FILES]
        case "path" | "directory" | "output" | "project":
            return [FOLDERS]
        case "file":
            return [FILES]
    return []


def _beginning(prefix: str, words: Iterable[str]) -> list[str]:
    return [word for word in dict.fromkeys(words) if word.startswith(prefix)][:MOST]


def _runs(prefix: str, *, active: bool) -> list[str]:
    from runner.store.index import suggested

    latest = [] if active else _beginning(prefix, ["latest"])
    return [*latest, *suggested(_index(), prefix, MOST, active=active)]


def _known(column: str, prefix: str) -> list[str]:
    from runner.store.index import known

    return known(_index(), column, prefix, MOST)


def _index() -> Path:
    from runner.store import settings
    from runner.store.paths import Home

    found, _ = settings.load(os.environ, settings.settings_files(), {})
    return Home(found.home).index


def _slurm() -> list[str]:
    from runner.slurm.target import PLACE

    return [PLACE] if shutil.which("sbatch") else []


def _servers() -> Iterable[str]:
    from runner.remote import profile

    return profile.read(profile.path()).servers


def _images() -> Iterator[str]:
    """Yield the images of the settings and of an engine here, but not rai's keys."""
    from runner.engines.docker import endpoint
    from runner.images.names import KEY_REPOSITORY
    from runner.store import settings

    found, _ = settings.load(os.environ, settings.settings_files(), {})
    yield from (rule.image for rule in found.images)
    for name in endpoint.image_names(os.environ):
        if not name.startswith(f"{KEY_REPOSITORY}:"):
            yield name


def _commands(words: list[str]) -> Iterator[str]:
    """Yield what selects a command of the project that the command line names."""
    from runner.session.project import read_spec
    from runner.session.selection import selecting

    given = [b for a, b in pairwise(words) if a in ("-p", "--path")]
    first = [w for w in words[:1] if not w.startswith("-")]
    yield from selecting(read_spec(Path((given or first or ["."])[0]))[0].commands)
