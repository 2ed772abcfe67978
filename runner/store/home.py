"""Open rai's home folder, and find runs in it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from runner.core import Problem, RunRecord
from runner.core.errors import ConfigError, UsageError
from runner.store import index, runs
from runner.store.index import Index
from runner.store.paths import Home, RunPaths

LATEST = "latest"


def make(root: Path) -> Home:
    """Make the home folder if it is absent; raise ConfigError if that fails."""
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"cannot create {root}: {error.strerror}"
        hint = "set RAI_HOME to a folder that you can write to"
        raise ConfigError(Problem(why, hint=hint)) from error
    return Home(root)


def open_index(home: Home) -> Index:
    """Open the index and bring it up to date with the folders of the runs."""

    def records() -> Iterable[RunRecord]:
        found = (runs.read(paths) for paths in runs.folders(home))
        return [record for record in found if record is not None]

    listed = index.open_index(home.index, records)
    try:
        listed.sync(lambda: runs.names(home), lambda name: runs.read(home.run(name)))
    except BaseException:
        listed.close()
        raise
    return listed


def find(home: Home, text: str) -> RunPaths:
    """Return the run that ``text`` names: an id, its beginning, or ``latest``.

    Raises:
        UsageError: ``text`` matches no run, or several.
    """
    if not text:
        raise UsageError("the run's id is empty; `rai history` lists the runs")
    with open_index(home) as listed:
        newest = [listed.latest()] if text == LATEST else listed.find(text)
    found = [name for name in newest if name]
    if not found:
        raise UsageError(f"no run {text!r}; `rai history` lists the runs")
    if len(found) > 1 and text not in found:
        raise UsageError(f"{text!r} matches several runs: {', '.join(found)}")
    return home.run(text if text in found else found[0])


def record_of(paths: RunPaths) -> RunRecord:
    """Return a run's record; raise UsageError if its folder has none."""
    record = runs.read(paths)
    if record is None:
        raise UsageError(f"run {paths.id} has no record; its folder is {paths.root}")
    return record
