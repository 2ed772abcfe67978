"""What a shell offers for values of options and arguments.

Each function is typer's ``autocompletion`` of some; an error offers nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from shutil import which

import typer

MOST = 50
"""The most names that are offered at a time."""

SAFE = re.compile(r"[\w@%+=:,./-]+")
"""What a shell takes as it is: some words are a project's."""


def runs(incomplete: str) -> list[str]:
    """Return tags and ids of runs."""
    return [*_beginning(incomplete, ["latest"]), *_runs(incomplete, active=False)]


def unended(incomplete: str) -> list[str]:
    """Return tags and ids of runs that have not ended."""
    return _runs(incomplete, active=True)


def commands(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return what selects a command of the project that the command line names."""
    from runner.execution.project import read_spec
    from runner.spec.buildfile import selecting

    # DIR is among the rest while the option at the end has no value.
    given = (ctx.params.get("path"), *ctx.args, ".")
    project = next(Path(word) for word in given if word and Path(word).exists())
    return _beginning(incomplete, selecting(read_spec(project)[0].commands))


def places(incomplete: str) -> list[str]:
    """Return where runs can go."""
    slurm = ["slurm"] if which("sbatch") else []
    return _beginning(incomplete, ["here", *slurm, *_servers()])


def servers(incomplete: str) -> list[str]:
    """Return the servers that one is logged in at."""
    return _beginning(incomplete, _servers())


def settings(incomplete: str) -> list[str]:
    """Return the names of settings."""
    from runner.store.settings import SETTINGS

    return _beginning(incomplete, (setting.key for setting in SETTINGS))


def one_of(*words: str) -> Callable[[str], list[str]]:
    """Return what offers these words."""

    def offered(incomplete: str) -> list[str]:
        return _beginning(incomplete, words)

    return offered


def _beginning(prefix: str, words: Iterable[str]) -> list[str]:
    found = (word for word in dict.fromkeys(words) if word.startswith(prefix))
    return [word for word in found if SAFE.fullmatch(word)][:MOST]


def _runs(prefix: str, *, active: bool) -> list[str]:
    from runner.store import run_files, runs, settings
    from runner.store.home import tagged, unfinished
    from runner.store.paths import Home

    found, _ = settings.load(os.environ, settings.settings_files(), {})
    home = Home(found.home)
    if active:
        return _beginning(prefix, [paths.id for paths in unfinished(home)])
    named = [run_files.read_tag(home.run(name)) for name in tagged(home, f"{prefix}*")]
    return _beginning(prefix, [*named, *sorted(runs.names(home))])


def _servers() -> Iterable[str]:
    from runner.client import profile

    return profile.read(profile.path()).servers
