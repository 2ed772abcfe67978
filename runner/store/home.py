"""rai's home folder as commands use it: its runs found, listed and kept in order."""

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
    """Make the home folder where it is absent; ConfigError where that fails."""
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"runs cannot be kept in {root}: {error.strerror}"
        hint = "let RAI_HOME name a folder that can be written to"
        raise ConfigError(Problem(why, hint=hint)) from error
    return Home(root)


def swept(root: Path) -> Home:
    """Return the home folder, with the runs whose process died recorded as lost."""
    home = make(root)
    if lost := runs.sweep(home):
        with opened(home) as known:
            known.put(*lost)
    return home


def opened(home: Home) -> Index:
    """Open the index, brought up to date with the folders of the runs."""

    def records() -> Iterable[RunRecord]:
        found = (runs.read(paths) for paths in runs.folders(home))
        return [record for record in found if record is not None]

    known = index.open_index(home.index, records)
    try:
        known.sync(lambda: runs.names(home), lambda name: runs.read(home.run(name)))
    except BaseException:
        known.close()
        raise
    return known


def find(home: Home, text: str) -> RunPaths:
    """Return the one run that ``text`` names: an id, its beginning, or ``latest``.

    Raises:
        UsageError: it names none, or several.
    """
    if not text:
        raise UsageError("the run's id is empty; `rai history` lists the runs")
    with opened(home) as known:
        newest = [known.latest()] if text == LATEST else known.find(text)
    found = [name for name in newest if name]
    if not found:
        raise UsageError(f"no run {text!r}; `rai history` lists the runs")
    if len(found) > 1 and text not in found:
        raise UsageError(f"{text!r} could be any of {', '.join(found)}")
    return home.run(text if text in found else found[0])


def record_of(paths: RunPaths) -> RunRecord:
    """Return a run's record; UsageError where its folder has none."""
    record = runs.read(paths)
    if record is None:
        raise UsageError(f"run {paths.id} has no record; its folder is {paths.root}")
    return record
