"""What a server keeps: old runs and uploads that it removes by itself, and backups.

A backup is a folder that is laid out as the server's own. Of the store it has the
database's own copy, and else what a server cannot be made again from without: its
settings, its certificate with the key, the site's milestones, and the uploads of
submissions and of the runs that have not ended.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

from runner.core import Problem
from runner.core.errors import RaiError, UsageError
from runner.core.quantities import DAY_S
from runner.core.wire import Capacity
from runner.server import messages
from runner.server.database import Store, open_store
from runner.server.folders import ServerRuns
from runner.server.paths import DATABASE_VARIABLE, ServerFolder, sqlite_url, upload_path
from runner.server.scheduling import QueueRow, Role, ServerRules
from runner.system import files

EVERY_S = 60.0
AT_ONCE = 100
"""So many folders are removed at a time."""

KEPT_S = 3600.0
"""No run is removed for its team's quota before: its client may be reading it."""

KEPT_UPLOAD_S = 3600.0
"""An upload that no run needs is kept so long, for a client that sends it again."""

MOST_NAMED = 20
KEPT_LOW_S = DAY_S
KEPT_UPLOAD_LOW_S = 600.0
"""The same where the disk is low; a run then goes before its team's time is over."""


class Upkeep:
    """The upkeep of one server. It never removes what a run needs that has not ended.

    An upload is needed until a run's folder, which has a copy, was claimed.
    """

    def __init__(
        self,
        store: Store,
        runs: ServerRuns,
        rules: ServerRules,
        folder: Path,
    ) -> None:
        self._store, self._runs, self._rules = store, runs, rules
        self._folder, self._next = folder, 0.0

    def when_due(self, now: float, facts: Capacity | None) -> None:
        """Tidy up once a minute, once it is known what can run."""
        due = now >= self._next or self._next - now > EVERY_S  # the clock was set back
        if due and facts is not None:
            self._next = now + EVERY_S
            self.tidy(now, facts)

    def tidy(self, now: float, facts: Capacity) -> None:
        """Remove what may go; raise RaiError where the store fails."""
        short = self._rules.low_disk_bytes - facts.disk_free
        self._uploads(now, low=short > 0 or self._low_here())
        self._expired(now)
        self._over_quota(now)
        if short > 0:
            rows = self._store.removable(now - KEPT_LOW_S, AT_ONCE)
            self._remove(_enough(rows, short), "the disk of the runs is low")

    def _expired(self, now: float) -> None:
        kept = {name: role.keep_s for name, role in self._rules.roles.items()}
        # Runs of roles that the rules no longer have are kept the longest.
        longest = max(kept.values(), default=Role("").keep_s)
        for role, keep_s in [*kept.items(), (None, longest)]:
            while rows := self._store.removable(now - keep_s, AT_ONCE, role=role):
                if self._remove(rows, "kept long enough") < len(rows):
                    break

    def _over_quota(self, now: float) -> None:
        teams = {person.team: person.role for person in self._store.people()}
        for team, role in teams.items():
            over = self._store.use(team, now).bytes - self._rules.role(role).disk_bytes
            if over > 0:
                rows = self._store.removable(now - KEPT_S, AT_ONCE, team=team)
                self._remove(_enough(rows, over), "its team is over its disk quota")

    def _remove(self, rows: Iterable[QueueRow], why: str) -> int:
        """Remove the folders of ended runs; return how many are gone."""
        if not (ids := [row.id for row in rows]):
            return 0
        self._runs.remove(ids)
        left = {one.id: one for one in self._runs.look(ids).values() if one.claimed}
        for one in left.values():
            # The store knows it as ended: nobody waits for what it still does.
            if not one.ended:
                with suppress(RaiError):
                    self._runs.cancel(one.id)
        gone = [run_id for run_id in ids if run_id not in left]
        if gone:
            self._store.removed(gone)
            messages.step("runs_removed", runs=len(gone), why=why)
        return len(gone)

    def _uploads(self, now: float, *, low: bool) -> None:
        def drop(team: str, sha256: str) -> None:
            upload_path(self._folder, team, sha256).unlink(missing_ok=True)

        before = now - (KEPT_UPLOAD_LOW_S if low else KEPT_UPLOAD_S)
        if gone := self._store.remove_uploads(before, drop):
            messages.step("uploads_removed", uploads=gone)

    def _low_here(self) -> bool:
        with suppress(FileNotFoundError):  # nothing was uploaded yet
            return shutil.disk_usage(self._folder).free < self._rules.low_disk_bytes
        return False


def _enough(rows: Sequence[QueueRow], wanted: int) -> Iterator[QueueRow]:
    """Yield the first rows whose folders take so many bytes, or all."""
    for row in rows:
        if wanted > 0:
            yield row
        wanted -= row.bytes


def backup(
    folder: ServerFolder, store: Store, milestones: Iterable[Path], into: Path
) -> tuple[str, list[Problem]]:
    """Write a backup aside, then give it its name; only this user can read it.

    Return the command that writes the store into it, "" where that is done: a store on
    PostgreSQL is copied by the database's own program. Return what is wrong with
    folders of milestones too; the rest of the backup is whole.

    Raises:
        UsageError: there is something of that name.
        RaiError: the store cannot be read, or the folder not be written.
    """
    if into.exists():
        raise UsageError(f"{into} is there already: name a new folder")
    new = ServerFolder(files.aside(into.absolute()))
    shutil.rmtree(new.root, ignore_errors=True)
    try:
        new.root.mkdir(mode=0o700)
        _copy_uploads(folder, new, store)
        if copied := store.copy(new.database):
            # Those of runs that were queued meanwhile: what waits in the copy is whole.
            with closing(open_store(sqlite_url(new.database))) as kept:
                _copy_uploads(folder, new, kept)
        for path in (folder.rules, folder.certificate, folder.key):
            _copy(path, new.root / path.relative_to(folder.root))
        problems = _copy_milestones(milestones, new.root / "milestones", into)
        os.sync()
        new.root.rename(into)
    except OSError as error:
        raise RaiError(files.problem(error), advice="") from error
    finally:
        shutil.rmtree(new.root, ignore_errors=True)
    file = shlex.quote(str(into.absolute() / "store.pgdump"))
    url = f'"postgresql:${{{DATABASE_VARIABLE}#*:}}"'
    command = "" if copied else f"pg_dump --format=custom --file={file} {url}"
    return command, problems


def _copy_milestones(folders: Iterable[Path], to: Path, into: Path) -> list[Problem]:
    """Copy the site's folders of milestones; return what cannot be copied of them."""
    hint = f"the rest is in {into}; correct the folder, or the setting `milestones`"
    problems = []
    for folder in folders:
        place, whys = to / folder.absolute().relative_to("/"), list[str]()
        try:
            shutil.copytree(folder, place, symlinks=True, dirs_exist_ok=True)
        except shutil.Error as error:  # it has gone on after each
            whys = [why for *_, why in error.args[0]]
        except OSError as error:
            whys = [error.strerror or str(error)]
        problems += [
            Problem(
                f"the folder of milestones {folder} is not copied: {why}", hint=hint
            )
            for why in whys[:MOST_NAMED]
        ]
    return problems


def _copy_uploads(folder: ServerFolder, new: ServerFolder, store: Store) -> None:
    """Copy the uploads of submissions, and of runs that have not ended.

    Those that are copied stay as they are.
    """
    going = [(row.team, row.sha256) for row in store.unfinished()]
    for known in store.submitted_uploads() + going:
        if not (to := upload_path(new.uploads, *known)).exists():
            _copy(upload_path(folder.uploads, *known), to)


def _copy(path: Path, to: Path) -> None:
    """Copy a file with its mode, if it is there."""
    with suppress(FileNotFoundError):
        to.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copy(path, to)
