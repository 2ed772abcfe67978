"""Runs and the uploads that they are made of: the queue, its lists, its steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, convert
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    delete,
    exists,
    false,
    func,
    literal,
    or_,
    select,
    tuple_,
    update,
)

from runner.core import MIB, Reason
from runner.core.errors import NotAllowedError
from runner.core.milestone import Trust
from runner.core.wire import QueueState
from runner.server.database.connections import Transactions, put
from runner.server.database.tables import (
    parcels,
    runs,
    server,
    submissions,
    team_bytes,
    uploads,
)
from runner.server.scheduling import GpuDay, QueueRow

MOST_BYTES = 4 * MIB
"""The size of a parcel, and of its secrets, so that no row is too large for memory."""

_USED_EVERY_S = 60.0
"""How often the last use of an upload is written, which is kept for much longer."""

_WAITING = runs.c.state == QueueState.WAITING
_STARTING = runs.c.state == QueueState.STARTING
_ENDED = runs.c.state == QueueState.ENDED
_NOT_BEGUN = runs.c.state.in_((QueueState.WAITING, QueueState.STARTING))
_BEGUN = runs.c.state.in_((QueueState.STARTING, QueueState.RUNNING))
_UNFINISHED = runs.c.state.in_([one for one in QueueState if one != QueueState.ENDED])
_WANTED = runs.c.cancelled.is_(False)
_KEPT = runs.c.removed == false()
_PASSING = or_(submissions.c.rehearsal.is_(True), submissions.c.closed.is_(True))
_FOR_GOOD = exists().where(submissions.c.number == runs.c.submission, ~_PASSING)
"""The runs of a submission stay, and no bound of its team counts them."""

_SENT_FOR_GOOD = exists().where(
    submissions.c.team == uploads.c.team,
    submissions.c.sha256 == uploads.c.sha256,
    or_(~_PASSING, submissions.c.ended_at.is_(None)),
)
"""So does its upload; that of a rehearsal until its end."""

_LARGE = ("parcel", "secrets")
_FIELDS = [name for name in QueueRow.__struct_fields__ if name not in _LARGE]
_LISTING = select(*(runs.c[name] for name in _FIELDS))
"""Runs without what is large of them: a listing has no parcels and no secrets."""


class TeamUse(Struct, frozen=True):
    """What a team has: runs that wait and run, runs since a time, and bytes kept."""

    waiting: int = 0
    active: int = 0
    queued_since: int = 0
    oldest_since: float | None = None
    bytes: int = 0


class Runs(Transactions):
    """The part of a store that knows runs and uploads.

    Each step from waiting to the end is guarded. An upload is known by its team and its
    SHA-256.
    """

    def add_upload(self, team: str, sha256: str, size: int, now: float) -> None:
        """Add an upload of a team, or count the one that is there as used now."""
        use = {"used_at": now}
        with self.writing() as link:
            put(
                link, uploads, {"team": team, "sha256": sha256, "size": size} | use, use
            )

    def upload(self, team: str, sha256: str, now: float) -> int | None:
        """Return the size of a team's upload, which is used now; None if none."""
        own = and_(uploads.c.team == team, uploads.c.sha256 == sha256)
        with self.reading() as link:
            row = link.execute(select(uploads).where(own)).first()
        if row is None or row.used_at > now - _USED_EVERY_S:
            return None if row is None else int(row.size)
        change = update(uploads).where(own).values(used_at=now)
        with self.writing() as link:
            return link.execute(change.returning(uploads.c.size)).scalar()

    def holds_staff(self, team: str, sha256: str) -> bool:
        """Whether an upload is of a run by which an assignment's staff time a team."""
        own = and_(runs.c.team == team, runs.c.sha256 == sha256)
        its = submissions.c.number == runs.c.submission
        timed = exists().where(own, its, submissions.c.trust == Trust.TIMED)
        with self.reading() as link:
            return bool(link.execute(select(timed)).scalar())

    def remove_uploads(self, before: float, drop: Callable[[str, str], None]) -> int:
        """Forget uploads not used since that no waiting run needs; return how many.

        A run that starts needs its upload too: it may have to wait again. ``drop`` is
        told team and SHA-256 of each, within the transaction, so that nobody finds an
        upload meanwhile whose file is gone.
        """
        own = and_(runs.c.team == uploads.c.team, runs.c.sha256 == uploads.c.sha256)
        needed = or_(exists().where(own, _NOT_BEGUN), _SENT_FOR_GOOD)
        gone = delete(uploads).where(uploads.c.used_at < before, ~needed)
        with self.writing() as link:
            found = link.execute(gone.returning(uploads.c.team, uploads.c.sha256)).all()
            for team, sha256 in found:
                drop(team, sha256)
            return len(found)

    def add_run(self, row: QueueRow) -> tuple[QueueRow, bool]:
        """Add a run; return the run of this id, and whether it is the one given.

        The caller compares team and digest where it is not. Raise NotAllowedError for
        a parcel or secrets over 4 MiB.
        """
        if max(len(row.parcel), len(row.secrets.encode())) > MOST_BYTES:
            raise NotAllowedError(f"the request of run {row.id} is over 4 MiB")
        with self.writing() as link:
            new = insert_run(link, row, count_change(link))
            kept = _one(link, row.id)
            if not new:
                link.rollback()
        assert kept is not None, "a run is never deleted"
        return kept, new

    def claim(self, run_id: str, attempt: int) -> bool:
        """Take a WAITING run of this attempt to STARTING, and count the attempt.

        Returns False where another was first, or it was cancelled.
        """
        guard = and_(_WAITING, _WANTED, runs.c.attempt == attempt)
        new = {"state": QueueState.STARTING, "attempt": attempt + 1, "why": ""}
        return self._step(run_id, (guard, new)) == 0

    def unclaim(self, run_id: str, attempt: int, why: str) -> bool:
        """Take a STARTING run, nothing of which ran, back to WAITING.

        ``attempt`` is that of the row as it is now, so one more than was claimed. A run
        that was cancelled meanwhile ends instead, as cancelled; that returns False.
        """
        guard = and_(_STARTING, runs.c.attempt == attempt)
        back = {"state": QueueState.WAITING, "why": why}
        end = _cancelled(runs.c.cancelled_at)
        return self._step(run_id, (and_(guard, _WANTED), back), (guard, end)) == 0

    def started(self, run_id: str, at: float) -> None:
        """Take a STARTING run to RUNNING, and forget its parcel and secrets."""
        new = {"state": QueueState.RUNNING, "started_at": at, "why": ""}
        self._step(run_id, (_STARTING, new))

    def ended(
        self,
        run_id: str,
        at: float,
        reason: Reason | None,
        why: str = "",
        kept_bytes: int = 0,
    ) -> bool:
        """End a run in any state but ENDED, and forget its parcel and secrets."""
        new = {"state": QueueState.ENDED, "ended_at": at, "reason": reason}
        new |= {"why": why, "bytes": kept_bytes}
        return self._step(run_id, (_UNFINISHED, new)) == 0

    def ask_cancel(self, run_id: str, at: float, why: str) -> QueueRow | None:
        """Note that a run shall end; one that waits ends at once, as cancelled."""
        asked = {"cancelled": True, "cancelled_at": at, "why": why}
        waits = (and_(_WAITING, _WANTED), asked | _cancelled(at))
        self._step(run_id, waits, (and_(_BEGUN, _WANTED), asked))
        return self.run(run_id)

    def wait_reason(self, why: Mapping[str, str]) -> None:
        """Write why runs wait, by their ids, where that changed.

        A run that was handed over may wait yet; why one was cancelled is kept.
        """
        waits = and_(_NOT_BEGUN, _WANTED)
        with self.reading() as link:
            rows = link.execute(select(runs.c.id, runs.c.why).where(waits)).all()
        new = [row.id for row in rows if why.get(row.id, row.why) != row.why]
        if not new:
            return
        with self.writing() as link:
            number = count_change(link)
            for run_id in new:
                change = update(runs).where(runs.c.id == run_id, waits)
                link.execute(change.values(why=why[run_id], changed=number))

    def removed(self, run_ids: Sequence[str]) -> None:
        """Note that the folders of runs are gone."""
        gone = update(runs).where(runs.c.id.in_(run_ids), _ENDED, _KEPT)
        freed: Counter[str] = Counter()
        with self.writing() as link:
            change = gone.values(removed=True, changed=count_change(link))
            for row in link.execute(change.returning(runs.c.team, runs.c.bytes)):
                freed[row.team] += row.bytes
            for team, count in sorted(freed.items()):
                keep_bytes(link, team, -count)

    def run(self, run_id: str) -> QueueRow | None:
        """Return a run."""
        with self.reading() as link:
            return _one(link, run_id)

    def runs(
        self,
        team: str | None = None,
        state: QueueState | None = None,
        after: str = "",
        limit: int = 100,
    ) -> list[QueueRow]:
        """Return runs, the newest first, from the one after ``after``; no parcels.

        Those whose folders are gone are none of them.
        """
        query = _LISTING.where(_KEPT)
        query = query.order_by(runs.c.queued_at.desc(), runs.c.id.desc())
        if team is not None:
            query = query.where(runs.c.team == team)
        if state is not None:
            query = query.where(runs.c.state == state)
        if after:
            last = self._listed(_LISTING.where(runs.c.id == after))
            if not last or team not in (None, last[0].team):
                return []
            place = tuple_(runs.c.queued_at, runs.c.id)
            query = query.where(place < (last[0].queued_at, after))
        return self._listed(query.limit(limit))

    def unfinished(self) -> list[QueueRow]:
        """Return the runs that have not ended, the oldest first; no parcels."""
        query = _LISTING.where(_UNFINISHED)
        return self._listed(query.order_by(runs.c.queued_at, runs.c.id))

    def ended_between(self, after: int, until: int) -> list[QueueRow]:
        """Return the runs whose ends are among these changes; no parcels."""
        query = _LISTING.where(runs.c.changed > after, runs.c.changed <= until)
        return self._listed(query.where(_ENDED, _KEPT).order_by(runs.c.changed))

    def started_since(self, since: float) -> list[QueueRow]:
        """Return the runs that started since, the oldest first; no parcels."""
        query = _LISTING.where(runs.c.started_at >= since)
        return self._listed(query.order_by(runs.c.started_at, runs.c.id))

    def removable(
        self,
        ended_before: float,
        limit: int = 1000,
        role: str | None = None,
        team: str | None = None,
    ) -> list[QueueRow]:
        """Return ended runs whose folders may go, the oldest first; no parcels.

        With ``role`` only those that were queued in this role, with ``team`` only its.
        """
        query = _LISTING.where(_KEPT, runs.c.ended_at < ended_before, ~_FOR_GOOD)
        query = query.order_by(runs.c.ended_at, runs.c.id)
        if team is not None:
            query = query.where(runs.c.team == team)
        if role is not None:
            query = query.where(runs.c.role == role)
        return self._listed(query.limit(limit))

    def use(self, team: str, since: float) -> TeamUse:
        """Return what a team has, and how many runs it queued since.

        Its bytes are those of its runs that are kept, and of its uploads at full size.
        What its submissions are made of counts nowhere.
        """
        own = and_(runs.c.team == team, ~_FOR_GOOD)
        sent = select(func.sum(uploads.c.size)).where(uploads.c.team == team)
        recent = and_(own, runs.c.queued_at >= since)
        count = select(func.count()).select_from(runs)
        figures = (
            count.where(own, _WAITING),
            count.where(own, _BEGUN),
            count.where(recent),
            select(func.min(runs.c.queued_at)).where(recent),
            sent.where(~_SENT_FOR_GOOD),
            select(team_bytes.c.bytes).where(team_bytes.c.team == team),
        )
        query = select(*(one.scalar_subquery() for one in figures))
        with self.reading() as link:
            waiting, active, queued, oldest, up, kept = link.execute(query).one()
        return TeamUse(waiting, active, queued, oldest, int(up or 0) + (kept or 0))

    def gpu_use(self, since: float, now: float) -> dict[str, GpuDay]:
        """Return how long each team had GPUs, by its runs that started since."""
        took_s = func.coalesce(runs.c.ended_at, now) - runs.c.started_at
        had_s, first = func.sum(runs.c.gpus * took_s), func.min(runs.c.started_at)
        query = select(runs.c.team, had_s, first).group_by(runs.c.team)
        query = query.where(runs.c.started_at >= since, runs.c.gpus > 0, ~_FOR_GOOD)
        with self.reading() as link:
            return {team: GpuDay(*use) for team, *use in link.execute(query)}

    def changes(self) -> int:
        """Return a number that grows with each change of a run."""
        with self.reading() as link:
            return int(link.execute(select(server.c.changes)).scalar_one())

    def _listed(self, query: Select[Any]) -> list[QueueRow]:
        with self.reading() as link:
            return [_row(row) for row in link.execute(query)]

    def _step(
        self, run_id: str, *ways: tuple[ColumnElement[bool], Mapping[str, object]]
    ) -> int | None:
        """Change a run in the first way whose guard it meets; return which, or None.

        A run that started or ended forgets its parcel and secrets, which only its start
        needs.
        """
        own = runs.c.id == run_id
        any_way = or_(*(guard for guard, _ in ways))
        # Looked at first, so that who comes too late does not wait for who writes.
        with self.reading() as link:
            if link.execute(select(runs.c.id).where(own, any_way)).first() is None:
                return None
        with self.writing() as link:
            number = count_change(link)
            for place, (guard, new) in enumerate(ways):
                change = update(runs).where(own, guard).values(**new, changed=number)
                kept = (
                    runs.c.state,
                    runs.c.team,
                    runs.c.bytes,
                    _FOR_GOOD.label("stays"),
                )
                if row := link.execute(change.returning(*kept)).first():
                    if row.state in (QueueState.RUNNING, QueueState.ENDED):
                        link.execute(delete(parcels).where(parcels.c.run == run_id))
                    if row.state == QueueState.ENDED and not row.stays:
                        keep_bytes(link, row.team, row.bytes)
                    return place
            link.rollback()
        return None


def insert_run(link: Connection, row: QueueRow, change: int) -> bool:
    """Add a run, within a transaction that counted a change; return whether it is new.

    One of its id that is there stays as it is.
    """
    values = {name: getattr(row, name) for name in _FIELDS} | {"changed": change}
    if new := put(link, runs, values):
        large = {"run": row.id, "parcel": row.parcel, "secrets": row.secrets}
        link.execute(parcels.insert().values(large))
    return new


def _cancelled(at: object) -> dict[str, object]:
    """Return what changes of a run that ends before it began, as it was cancelled."""
    return {"state": QueueState.ENDED, "reason": Reason.CANCELLED, "ended_at": at}


def _one(link: Connection, run_id: str) -> QueueRow | None:
    """Return a whole run."""
    query = _LISTING.add_columns(
        func.coalesce(parcels.c.parcel, literal(b"")),
        func.coalesce(parcels.c.secrets, ""),
    )
    query = query.outerjoin(parcels, parcels.c.run == runs.c.id)
    row = link.execute(query.where(runs.c.id == run_id)).first()
    return None if row is None else _row(row)


def _row(row: Row[Any]) -> QueueRow:
    """Return a row of a listing, or a whole one, as a run."""
    return convert(dict(zip((*_FIELDS, *_LARGE), row, strict=False)), QueueRow)


def count_change(link: Connection) -> int:
    """Count a change of runs, and return its number.

    It comes first in each transaction that changes a run: its row is locked up to the
    end of that, so that numbers grow in the order in which changes can be seen, and no
    two transactions wait for each other.
    """
    change = update(server).values(changes=server.c.changes + 1)
    return int(link.execute(change.returning(server.c.changes)).scalar_one())


def keep_bytes(link: Connection, team: str, more: int) -> None:
    """Add to the bytes of a team's runs that are kept."""
    if more:
        total = {"bytes": team_bytes.c.bytes + more}
        put(link, team_bytes, {"team": team, "bytes": more}, total)
