"""What most commands need: the settings, the home, and a run by its prefix."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from runner import config, index, runs
from runner.errors import UsageError
from runner.model import RunRecord
from runner.paths import Home, RunPaths

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, its beginning, or `latest`.")
]


def load(**flags: str | None) -> config.Config:
    """Read the settings, telling their warnings."""
    settings, warnings = config.load(os.environ, config.config_files(), flags)
    for problem in warnings:
        print(problem, file=sys.stderr)
    return settings


def home() -> Home:
    """Give the home folder, with the runs whose holder died marked as lost."""
    place = Home(load().home)
    if lost := runs.sweep(place):
        with opened(place) as known:
            known.put(*lost)
    return place


def opened(place: Home) -> index.Index:
    """Open the index; it is made again from the folders where it must be."""

    def records() -> Iterable[RunRecord]:
        found = (runs.read(paths) for paths in runs.folders(place))
        return [record for record in found if record is not None]

    return index.open_index(place.index, records)


def find(place: Home, text: str) -> RunPaths:
    """Give the one run that ``text`` names; UsageError where it is none or several."""
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
    record = runs.read(paths)
    if record is None:
        raise UsageError(f"run {paths.id} has no record; its folder is {paths.root}")
    return record


def print_json(value: Any) -> None:  # noqa: ANN401 - whatever json can write
    """Print a value as JSON on stdout."""
    print(json.dumps(value, indent=2, ensure_ascii=False))
