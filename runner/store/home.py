"""Open rai's home folder, and find runs in it."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from runner import files
from runner.core import Problem, RunRecord
from runner.core.errors import ConfigError, RaiError, UsageError
from runner.store import index, notes, removal, runs, tags
from runner.store.entries import Entry
from runner.store.index import Index
from runner.store.paths import Home, RunPaths
from runner.store.query import RunQuery

LATEST = "latest"


def make(root: Path) -> Home:
    """Make the home folder if it is absent.

    Raises:
        ConfigError: that fails, or it cannot be read, or it is another user's and
            everybody may replace what is in it. Root may use those of others.
    """
    hint = "set RAI_HOME to a folder that you can write to"
    try:
        # What runs print, and what they are of, is nobody else's business.
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        why = f"cannot create {root}: {error.strerror}"
        raise ConfigError(Problem(why, hint=hint)) from error
    if _is_others(root) and root.stat().st_mode & stat.S_IWOTH:
        why = f"{root} belongs to another user, and everybody may write to it"
        raise ConfigError(Problem(why, hint=hint))
    if not os.access(root, os.R_OK | os.X_OK):
        raise ConfigError(Problem(f"{root} cannot be read", hint=hint))
    return Home(root)


def warnings_of(home: Home) -> list[str]:
    """Return a warning if the home folder belongs to another user.

    On shared volumes and network file systems it may be another user's for good reason.
    """
    if not _is_others(home.root):
        return []
    return [f"{home.root} belongs to another user, who may change what rai keeps there"]


def _is_others(root: Path) -> bool:
    user = os.geteuid()
    return user != 0 and root.stat().st_uid not in (0, user)


def unfinished(home: Home) -> list[RunPaths]:
    """Return the folders of the runs that the index does not know to have ended."""
    with open_index(home) as listed:
        found = [home.run(name) for name in sorted(listed.unfinished())]
    return [paths for paths in found if paths.root.is_dir()]


def open_index(home: Home) -> Index:
    """Open the index and bring it up to date with the folders of the runs.

    It is held in memory, with an IndexWarning, where its file cannot be used.
    """
    try:
        return _synced(home, index.open_index(home.index))
    except RaiError as error:
        index.warn(error)
        listed = Index(index.IN_MEMORY)
        listed.make()
        return _synced(home, listed)


def _synced(home: Home, listed: Index) -> Index:
    try:
        listed.sync(
            runs.changed_ns(home),
            lambda: runs.names(home),
            lambda name: _read(home.run(name)),
            lambda name: _own(home.run(name)),
            lambda name: _changed_at(home.runs, name),
        )
    except BaseException:
        listed.close()
        raise
    return listed


def _own(paths: RunPaths) -> tuple[str, str]:
    return tags.read(paths), notes.read(paths)


def _changed_at(folder: Path, name: str) -> float:
    """Return when a run's folder last changed, which is about when the run ended."""
    try:
        return os.stat(f"{folder}/{name}").st_mtime  # noqa: PTH116 - of 100,000 runs
    except OSError:
        return 0.0


def _read(paths: RunPaths) -> RunRecord | None:
    """Return a run's record; None, too, until a run that has ended has its file.

    So it stays among the unfinished, if its process died in between.
    """
    found = runs.read(paths)
    ended = found is not None and found.state.final
    return None if ended and not paths.record.exists() else found


def find(home: Home, text: str) -> RunPaths:
    """Return the run that ``text`` names: an id, its beginning, a tag, or ``latest``.

    Raises:
        UsageError: ``text`` matches no run, or several.
    """
    with open_index(home) as listed:
        return find_in(listed, home, text)


def find_in(listed: Index, home: Home, text: str) -> RunPaths:
    """Return the run that ``text`` names, as ``find`` does, from an open index."""
    if not text:
        raise UsageError("the run's id is empty; `rai history` lists the runs")
    if text == LATEST:
        found = [name for name in [listed.latest()] if name]
    elif not files.is_text(text):
        found = []
    else:
        # No tag reads as the beginning of an id.
        found = listed.tagged(text) or listed.find(text)
    if not found:
        raise UsageError(f"no run {text!r}; `rai history` lists the runs")
    if len(found) > 1 and text not in found:
        raise UsageError(f"{text!r} matches several runs: {', '.join(found)}")
    return home.run(text if text in found else found[0])


def latest_ended(listed: Index, home: Home) -> RunPaths:
    """Return the newest run that has ended; raise UsageError if there is none."""
    found = listed.list_runs(RunQuery(active=False), limit=1)
    if not found:
        raise UsageError("no run has ended yet; `rai run -p DIR` makes one")
    return home.run(found[0].id)


def before(listed: Index, home: Home, run: RunRecord) -> RunPaths:
    """Return the run that one is compared with if no other is named.

    That is the run measured beside it, else the newest of its project that ended and
    is older.

    Raises:
        UsageError: there is none.
    """
    known = bool(run.beside) and run.beside in listed.find(run.beside)
    name = run.beside if known else listed.before(run.id)
    if name is None:
        text = f"run {run.id} has no earlier run of its project to be compared with"
        raise UsageError(Problem(text, hint="name one: rai diff A B"))
    return home.run(name)


def set_tag(home: Home, paths: RunPaths, tag: str) -> list[str]:
    """Give a run a tag, or none if it is ""; return the runs that lose this tag."""
    with open_index(home) as listed:
        before = [name for name in listed.tagged(tag) if name != paths.id]
        # If this process dies in between, their folders are read again.
        listed.remove(paths.id, *before)
        for name in before:
            tags.write(home.run(name), "")
        tags.write(paths, tag)
    with open_index(home) as listed:
        listed.tag({paths.id: tag, **dict.fromkeys(before, "")})
    return before


def set_note(home: Home, paths: RunPaths, note: str) -> None:
    """Write a run's note; "" removes it."""
    with open_index(home) as listed:
        # If this process dies in between, its folder is read again.
        listed.remove(paths.id)
        notes.write(paths, note)
    with open_index(home) as listed:
        listed.annotate({paths.id: note})


def measured(home: Home, listed: Index, entries: Sequence[Entry]) -> list[Entry]:
    """Return entries of ended runs with their sizes; measure those not known."""
    new = {
        entry.id: removal.size_bytes(home.run(entry.id).root)
        for entry in entries
        if entry.size_bytes is None
    }
    if new:
        with suppress(RaiError):  # a disk that is full does not stop a listing
            listed.measured(new)
    return [
        replace(entry, size_bytes=new[entry.id]) if entry.id in new else entry
        for entry in entries
    ]


def record_of(paths: RunPaths) -> RunRecord:
    """Return a run's record; raise UsageError if its folder has none."""
    record = runs.read(paths)
    if record is None:
        raise UsageError(f"run {paths.id} has no record; its folder is {paths.root}")
    return record
