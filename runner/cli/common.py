"""What most commands need: the settings, the home, and a run by its prefix."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from runner.core import Problem
from runner.core.errors import ConfigError, UsageError
from runner.store.paths import Home, RunPaths

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.core import RunRecord
    from runner.store.index import Index
    from runner.store.settings import Config

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, its beginning, or `latest`.")
]


def load(**flags: str | None) -> Config:
    """Read the settings, telling their warnings."""
    from runner.store import settings

    found, warnings = settings.load(os.environ, settings.config_files(), flags)
    for problem in warnings:
        print(problem, file=sys.stderr)
    try:
        found.home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"runs cannot be kept in {found.home}: {error.strerror}"
        hint = "let RAI_HOME name a folder that can be written to"
        raise ConfigError(Problem(why, hint=hint)) from error
    return found


def home() -> Home:
    """Give the home folder, with the runs whose holder died marked as lost."""
    from runner.store import runs

    place = Home(load().home)
    if lost := runs.sweep(place):
        with opened(place) as known:
            known.put(*lost)
    return place


def opened(place: Home) -> Index:
    """Open the index; it is made again from the folders where it must be."""
    from runner.store import index, runs

    def records() -> Iterable[RunRecord]:
        found = (runs.read(paths) for paths in runs.folders(place))
        return [record for record in found if record is not None]

    return index.open_index(place.index, records)


def find(place: Home, text: str) -> RunPaths:
    """Give the one run that ``text`` names; UsageError where it is none or several."""
    if not text:
        raise UsageError("the run's id is empty; `rai history` lists the runs")
    with opened(place) as known:
        newest = [known.latest()] if text == "latest" else known.find(text)
    found = [name for name in newest if name]
    if not found:
        raise UsageError(f"no run {text!r}; `rai history` lists the runs")
    if len(found) > 1 and text not in found:
        raise UsageError(f"{text!r} could be any of {', '.join(found)}")
    return place.run(text if text in found else found[0])


def record_of(paths: RunPaths) -> RunRecord:
    """Read a run's record."""
    from runner.store import runs

    record = runs.read(paths)
    if record is None:
        raise UsageError(f"run {paths.id} has no record; its folder is {paths.root}")
    return record


def print_json(value: Any) -> None:  # noqa: ANN401 - whatever json can write
    """Print a value as JSON on stdout."""
    import json

    print(json.dumps(value, indent=2, ensure_ascii=False))
