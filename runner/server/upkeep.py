"""What a server removes by itself: old runs, those over a quota, uploads."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from runner.core.errors import RaiError
from runner.core.units import DAY_S
from runner.database.base import QueueRow
from runner.database.store import Store
from runner.scheduling.roles import Role, ServerRules
from runner.server import logs
from runner.server.folders import ServerRuns
from runner.server.uploadfiles import upload_path
from runner.wire.capacity import Capacity

EVERY_S = 60.0
AT_ONCE = 100
"""So many folders are removed at a time."""

KEPT_S = 3600.0
"""No run is removed for its team's quota before: its client may be reading it."""

KEPT_UPLOAD_S = 3600.0
"""An upload that no run needs is kept so long, for a client that sends it again."""

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
        self._uploads(now, low=short > 0 or self._short_here() > 0)
        self._expired(now)
        self._over_quota(now)
        if short > 0:
            self._low(now, short)

    def _expired(self, now: float) -> None:
        roles = self._rules.roles
        for role in roles.values():
            self._remove_all(now - role.keep_s, "kept long enough", role.name)
        # Runs of roles that the rules no longer have.
        longest = max((role.keep_s for role in roles.values()), default=Role("").keep_s)
        self._remove_all(now - longest, "kept long enough")

    def _remove_all(self, before: float, why: str, role: str | None = None) -> None:
        while rows := self._store.removable(before, AT_ONCE, role=role):
            if self._remove(rows, why) < len(rows):
                return

    def _over_quota(self, now: float) -> None:
        teams = {person.team: person.role for person in self._store.people()}
        for team, role in teams.items():
            most = self._rules.role(role).disk_bytes
            over = self._store.use(team, now).bytes - most
            if over > 0:
                rows = self._store.removable(now - KEPT_S, AT_ONCE, team=team)
                self._remove(_enough(rows, over), "its team is over its disk quota")

    def _low(self, now: float, short: int) -> None:
        rows = self._store.removable(now - KEPT_LOW_S, AT_ONCE)
        self._remove(_enough(rows, short), "the disk of the runs is low")

    def _remove(self, rows: Sequence[QueueRow], why: str) -> int:
        """Remove the folders of ended runs; return how many are gone."""
        ids = [row.id for row in rows]
        if not ids:
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
            logs.step("runs_removed", runs=len(gone), why=why)
        return len(gone)

    def _uploads(self, now: float, *, low: bool) -> None:
        def drop(team: str, sha256: str) -> None:
            upload_path(self._folder, team, sha256).unlink(missing_ok=True)

        before = now - (KEPT_UPLOAD_LOW_S if low else KEPT_UPLOAD_S)
        if gone := self._store.remove_uploads(before, drop):
            logs.step("uploads_removed", uploads=gone)

    def _short_here(self) -> int:
        try:
            free = shutil.disk_usage(self._folder).free
        except FileNotFoundError:  # nothing was uploaded yet
            return 0
        return self._rules.low_disk_bytes - free


def _enough(rows: Sequence[QueueRow], wanted: int) -> list[QueueRow]:
    """Return the first rows whose folders take so many bytes, or all."""
    found: list[QueueRow] = []
    for row in rows:
        if wanted <= 0:
            break
        found.append(row)
        wanted -= row.bytes
    return found
