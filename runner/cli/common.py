"""What most commands share: the settings, the home, `--json`, and RUN."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.core import Problem
    from runner.store.paths import Home, RunPaths
    from runner.store.settings import Settings

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, its beginning, or `latest`.")
]


def settings() -> Settings:
    """Return the settings, with their warnings printed."""
    from runner.store import settings

    found, warnings = settings.load(os.environ, settings.settings_files(), {})
    warn(warnings)
    return found


def warn(warnings: Iterable[Problem]) -> None:
    """Print warnings on stderr."""
    from runner.terminal.problems import problems

    problems(warnings)


def home() -> Home:
    """Return the home folder, with the runs whose process died recorded as lost."""
    from runner.store import home

    return home.swept(settings().home)


def found(run: str) -> RunPaths:
    """Return the folder of the run that RUN names."""
    from runner.store.home import find

    return find(home(), run)


def print_json(value: Any) -> None:  # noqa: ANN401 - whatever json can write
    """Print a value as JSON on stdout."""
    import json

    print(json.dumps(value, indent=2, ensure_ascii=False))
