"""Open rai's home folder, and find runs in it: by their folders, and nothing else.

A look asks the file system for each folder's record, and reads only those records that
may be wanted: no run ends before it begins, and a record is written at the end.
"""

from __future__ import annotations

import os
import stat
import time
from bisect import insort
from collections.abc import Callable, Collection, Iterable
from fnmatch import fnmatchcase
from pathlib import Path, PurePath

from msgspec import Struct

from runner.core import Problem, RunRecord
from runner.core.errors import ConfigError, UsageError
from runner.store import run_files, runs
from runner.store.paths import BUILD_FILES, WRITABLE, Home, RunPaths
from runner.system import files

LATEST = "latest"
SLACK_S = 5.0
"""How far a file server's clock may be off.

A run that began later than that from now did so before the clock was set back; it is
older than the others.
"""

Wants = Callable[[RunRecord], bool]
Read = Callable[[RunPaths], RunRecord | None]


def make(root: Path) -> Home:
    """Make the home folder if it is absent.

    Raises:
        ConfigError: that fails, or it cannot be read, or it is another user's and
            everybody may replace what is in it. Root may use those of others.
    """
    try:
        # What runs print, and what they are of, is nobody else's business.
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        why = f"cannot create {root}: {error.strerror}"
        raise ConfigError(Problem(why, hint=WRITABLE)) from error
    if _is_others(root) and root.stat().st_mode & stat.S_IWOTH:
        why = f"{root} belongs to another user, and everybody may write to it"
        raise ConfigError(Problem(why, hint=WRITABLE))
    if not os.access(root, os.R_OK | os.X_OK):
        raise ConfigError(Problem(f"{root} cannot be read", hint=WRITABLE))
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


def record_of(paths: RunPaths) -> RunRecord:
    """Return a run's record; raise UsageError if its folder has none."""
    record = runs.read(paths)
    if record is None:
        raise UsageError(f"run {paths.id} has no record; its folder is {paths.root}")
    return record


class RunQuery(Struct, frozen=True):
    """Which runs are wanted; what is not given does not choose.

    Runs that lists leave out are never wanted.
    ``active`` selects running or ended ones. ``project`` is the whole path of a
    project, ``project_word`` a part of its folder's name or of what the run is of a
    submission, in upper or lower case. ``branch`` and ``tag`` are patterns with ``*``
    and ``?``, or whole names. ``since`` is when a run began at the earliest, in seconds
    since 1970. ``command`` is a part of the name or the text of one of its commands.
    """

    active: bool | None = None
    project: str | None = None
    project_word: str | None = None
    branch: str | None = None
    tag: str | None = None
    since: float | None = None
    command: str | None = None

    @property
    def narrowed(self) -> bool:
        """Whether it asks for more than running or ended runs."""
        return self != RunQuery(active=self.active)

    def wants(self, run: RunRecord) -> bool:
        """Whether a run is wanted, whatever its tag."""
        name = f"{PurePath(run.project).name} {run.title}".casefold()
        branch = run.git.branch if run.git else ""
        return (
            not run.hidden
            and self.active in (None, not run.state.final)
            and self.project in (None, run.project)
            and (self.project_word or "").casefold() in name
            and (self.branch is None or _like(branch, self.branch))
            and (self.since is None or run.created_at >= self.since)
            and (self.command is None or _has(run, self.command))
        )


ALL = RunQuery()


def _like(name: str, pattern: str) -> bool:
    # `[` stands for itself.
    return bool(name) and (
        name == pattern or fnmatchcase(name, pattern.replace("[", "[[]"))
    )


def _has(run: RunRecord, word: str) -> bool:
    return any(word in (c.name or "") or word in c.text for c in run.first_round)


def look(
    home: Home, names: Iterable[str] | None = None
) -> tuple[list[str], list[tuple[float, str]]]:
    """Return the names of the runs' folders without a record, and of the others.

    With those goes when the record was written; the last one comes first.
    """
    root = str(home.runs)
    unended: list[str] = []
    ended: list[tuple[float, str]] = []
    for name in runs.names(home) if names is None else names:
        try:
            # The fastest way, where there are thousands.
            written = os.stat(f"{root}/{name}/record.json")  # noqa: PTH116
            ended.append((written.st_mtime, name))
        except OSError:
            unended.append(name)
    return unended, sorted(ended, reverse=True)


def unfinished(home: Home) -> list[RunPaths]:
    """Return the folders of the runs that have no record yet."""
    found = (home.run(name) for name in sorted(look(home)[0]))
    return [paths for paths in found if paths.root.is_dir()]


def newest(
    home: Home,
    wants: Wants,
    limit: int | None = None,
    *,
    read: Read = runs.read,
    names: Collection[str] | None = None,
) -> list[RunRecord]:
    """Return the runs that are wanted, the last one that began first; at most so many.

    ``names`` are the folders that are looked at, all if None.
    """
    now, (unended, ended) = time.time(), look(home, names)
    kept: list[tuple[float, str, RunRecord]] = []
    for ended_at, name in (*((float("inf"), name) for name in unended), *ended):
        full = limit is not None and len(kept) >= limit
        if full and ended_at + SLACK_S < kept[-(limit or 0)][0]:
            break
        run = read(home.run(name))
        if run is not None and wants(run):
            began = run.created_at if run.created_at <= now + SLACK_S else 0.0
            insort(kept, (began, run.id, run), key=lambda one: one[:2])
    return [run for *_, run in reversed(kept)][:limit]


def list_runs(
    home: Home, query: RunQuery = ALL, limit: int | None = None, read: Read = runs.read
) -> list[RunRecord]:
    """Return the runs that a query asks for, newest first; no more than ``limit``."""
    names = tagged(home, query.tag) if query.tag is not None else None
    return newest(home, query.wants, limit, read=read, names=names)


def tagged(home: Home, pattern: str) -> list[str]:
    """Return the ids of the runs whose tag is a name, or is like a pattern."""
    root, found = str(home.runs), []
    for name in sorted(runs.names(home)):
        # The fastest way, where there are thousands.
        if os.path.exists(f"{root}/{name}/tag"):  # noqa: PTH110
            tag = run_files.read_tag(home.run(name))
            found += [name] if _like(tag, pattern) else []
    return found


def find(home: Home, text: str) -> RunPaths:
    """Return the run that ``text`` names: an id, its beginning, a tag, or ``latest``.

    Raises:
        UsageError: ``text`` matches no run, or several.
    """
    if not text:
        raise UsageError("the run's id is empty; `rai runs` lists the runs")
    if text == LATEST:
        return latest(home)
    found: list[str] = []
    if files.is_text(text):
        # No tag reads as the beginning of an id.
        found = [] if run_files.tag_problem(text) else tagged(home, text)
        found = found or [n for n in sorted(runs.names(home)) if n.startswith(text)]
    if not found:
        raise UsageError(f"no run {text!r}; `rai runs` lists the runs")
    if len(found) > 1 and text not in found:
        raise UsageError(f"{text!r} matches several runs: {', '.join(found)}")
    return home.run(text if text in found else found[0])


def latest(home: Home, *, ended: bool = False) -> RunPaths:
    """Return the newest run of this folder's project, or the newest that has ended.

    That is the project that the working directory lies in; outside of all projects the
    newest run of any.

    Raises:
        UsageError: there is none.
    """
    here, is_project = _here()
    active = False if ended else None

    def first(project: str | None) -> list[RunRecord]:
        return newest(home, RunQuery(active, project).wants, 1)

    found = first(here) or ([] if is_project else first(None))
    if not found:
        of = f" of {here}" if is_project else ""
        text = f"no run{of} has ended yet" if ended else f"no run{of} yet"
        raise UsageError(Problem(text, hint="`rai runs` lists all runs"))
    return home.run(found[0].id)


def _here() -> tuple[str, bool]:
    """Return the folder of the project around this process, and whether it is one."""
    try:
        here = Path.cwd()
    except OSError:  # it was removed
        return "", False
    for folder in (here, *here.parents):
        if any((folder / name).exists() for name in BUILD_FILES):
            return str(folder), True
    return str(here), False


def before(home: Home, run: RunRecord) -> RunPaths:
    """Return the run that one is compared with if no other is named.

    That is the run measured beside it, else the newest of its project that ended and
    is older.

    Raises:
        UsageError: there is none.
    """
    if run.beside and home.run(run.beside).root.exists():
        return home.run(run.beside)

    def wants(other: RunRecord) -> bool:
        older = (other.created_at, other.id) < (run.created_at, run.id)
        return older and other.state.final and other.project == run.project

    found = newest(home, wants, 1)
    if not found:
        text = f"run {run.id} has no earlier run of its project to be compared with"
        raise UsageError(Problem(text, hint="name one: rai diff A B"))
    return home.run(found[0].id)


def set_tag(home: Home, paths: RunPaths, tag: str) -> list[str]:
    """Give a run a tag, or none if it is ""; return the runs that lose this tag."""
    before = [name for name in tagged(home, tag) if name != paths.id] if tag else []
    for name in before:
        run_files.write_text(home.run(name).tag, "")
    run_files.write_text(paths.tag, tag)
    return before
