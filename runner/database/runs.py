"""Runs and the uploads that they are made of: the queue, its lists, its steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    delete,
    exists,
    false,
    func,
    literal,
    select,
    tuple_,
    update,
)

from runner.core.ending import Reason
from runner.core.errors import NotAllowedError
from runner.core.units import MIB
from runner.database.base import QueueRow, TeamUse
from runner.database.connections import Transactions, insert, rollback
from runner.database.tables import (
    parcels,
    runs,
    server,
    team_bytes,
    uploads,
)
from runner.scheduling.room import GpuDay
from runner.wire.remote_runs import QueueState

MOST_BYTES = 4 * MIB
"""The size of a parcel, and of its secrets, so that no row is too large for memory."""

_USED_EVERY_S = 60.0
"""How often the last use of an upload is written, which is kept for much longer."""

_NOT_BEGUN = (QueueState.WAITING, QueueState.STARTING)
_BEGUN = (QueueState.STARTING, QueueState.RUNNING)
_UNFINISHED = (QueueState.WAITING, *_BEGUN)

_FIELDS = [c for c in runs.c if c.name in QueueRow.__struct_fields__]
"""The columns of a listing, which has no parcels and no secrets."""

_REASONS = {reason.value: reason for reason in Reason}

_MOST_AT_ONCE = 500
"""Ids in one statement; SQLite bounds the values of one."""


class Runs(Transactions):
    """The part of a store that knows runs and uploads.

    Each step from waiting to the end is guarded. An upload is known by its team and its
    SHA-256.
    """

    def add_upload(self, team: str, sha256: str, size: int, now: float) -> None:
        """Add an upload of a team, or count the one that is there as used now."""
        new = {"team": team, "sha256": sha256, "size": size, "used_at": now}
        with self.writing() as link:
            adding = insert(link, uploads).values(**new)
            link.execute(
                adding.on_conflict_do_update(
                    index_elements=["team", "sha256"], set_={"used_at": now}
                )
            )

    def upload(self, team: str, sha256: str, now: float) -> int | None:
        """Return the size of a team's upload, which is used now; None if none."""
        own = (uploads.c.team == team, uploads.c.sha256 == sha256)
        with self.reading() as link:
            row = link.execute(select(uploads).where(*own)).first()
        if row is None or row.used_at > now - _USED_EVERY_S:
            return None if row is None else int(row.size)
        change = update(uploads).where(*own).values(used_at=now)
        with self.writing() as link:
            return link.execute(change.returning(uploads.c.size)).scalar()

    def remove_uploads(self, before: float, drop: Callable[[str, str], None]) -> int:
        """Forget uploads not used since that no waiting run needs; return how many.

        A run that starts needs its upload too: it may have to wait again. ``drop`` is
        told team and SHA-256 of each, within the transaction, so that nobody finds an
        upload meanwhile whose file is gone.
        """
        needed = exists().where(
            runs.c.team == uploads.c.team,
            runs.c.sha256 == uploads.c.sha256,
            runs.c.state.in_(_NOT_BEGUN),
        )
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
            new = _add(link, row, _count_change(link))
            kept = _one(link, row.id)
            if not new:
                rollback(link)
        assert kept is not None, "a run is never deleted"
        return kept, new

    def claim(self, run_id: str, attempt: int) -> bool:
        """Take a WAITING run of this attempt to STARTING, and count the attempt.

        Returns False where another was first, or it was cancelled.
        """
        waits = (
            runs.c.state == QueueState.WAITING,
            runs.c.attempt == attempt,
            runs.c.cancelled.is_(False),
        )
        new = {"state": QueueState.STARTING, "attempt": attempt + 1, "why": ""}
        return self._changed(run_id, waits, new)

    def unclaim(self, run_id: str, attempt: int, why: str) -> bool:
        """Take a STARTING run, nothing of which ran, back to WAITING.

        ``attempt`` is that of the row as it is now, so one more than was claimed. A run
        that was cancelled meanwhile ends instead, as cancelled; that returns False.
        """
        starts = (runs.c.state == QueueState.STARTING, runs.c.attempt == attempt)
        with self.writing() as link:
            number = _count_change(link)
            back = {"state": QueueState.WAITING, "why": why, "changed": number}
            change = update(runs).where(runs.c.id == run_id, *starts)
            uncancelled = change.where(runs.c.cancelled.is_(False))
            if link.execute(uncancelled.values(**back)).rowcount:
                return True
            end = {
                "state": QueueState.ENDED,
                "reason": Reason.CANCELLED,
                "ended_at": runs.c.cancelled_at,
                "changed": number,
            }
            if link.execute(change.values(**end)).rowcount:
                _forget_request(link, run_id)
            else:
                rollback(link)
            return False

    def started(self, run_id: str, at: float) -> None:
        """Take a STARTING run to RUNNING, and forget its parcel and secrets."""
        starts = (runs.c.state == QueueState.STARTING,)
        new = {"state": QueueState.RUNNING, "started_at": at, "why": ""}
        self._changed(run_id, starts, new, forget=True)

    def ended(
        self,
        run_id: str,
        at: float,
        reason: Reason | None,
        why: str = "",
        kept_bytes: int = 0,
    ) -> bool:
        """End a run in any state but ENDED, and forget its parcel and secrets."""
        with self.writing() as link:
            change = (
                update(runs)
                .where(runs.c.id == run_id, runs.c.state != QueueState.ENDED)
                .values(
                    state=QueueState.ENDED,
                    ended_at=at,
                    reason=reason,
                    why=why,
                    bytes=kept_bytes,
                    changed=_count_change(link),
                )
                .returning(runs.c.team)
            )
            if (row := link.execute(change).first()) is None:
                rollback(link)
                return False
            _forget_request(link, run_id)
            _keep_bytes(link, row.team, kept_bytes)
            return True

    def ask_cancel(self, run_id: str, at: float, why: str) -> QueueRow | None:
        """Note that a run shall end; one that waits ends at once, as cancelled."""
        with self.writing() as link:
            number = _count_change(link)
            asked = {"cancelled": True, "cancelled_at": at, "why": why}
            asked["changed"] = number
            end = {"state": QueueState.ENDED, "reason": Reason.CANCELLED}
            change = update(runs).where(
                runs.c.id == run_id, runs.c.cancelled.is_(False)
            )
            waits = runs.c.state == QueueState.WAITING
            begun = runs.c.state.in_(_BEGUN)
            ending = change.where(waits).values(**asked, **end, ended_at=at)
            if link.execute(ending).rowcount:
                _forget_request(link, run_id)
                return _one(link, run_id)
            if link.execute(change.where(begun).values(**asked)).rowcount:
                return _one(link, run_id)
            rollback(link)
        with self.reading() as link:
            return _one(link, run_id)

    def wait_reason(self, why: dict[str, str]) -> None:
        """Write why runs wait, by their ids, where that changed.

        A run that was handed over may wait yet; why one was cancelled is kept.
        """
        waits = (
            runs.c.state.in_(_NOT_BEGUN),
            runs.c.cancelled.is_(False),
        )
        query = select(runs.c.id, runs.c.why).where(*waits)
        with self.reading() as link:
            known = {row.id: row.why for row in link.execute(query)}
        new = {name: why[name] for name in sorted(known.keys() & why.keys())}
        new = {name: text for name, text in new.items() if text != known[name]}
        if not new:
            return
        with self.writing() as link:
            number = _count_change(link)
            for name, text in new.items():
                link.execute(
                    update(runs)
                    .where(runs.c.id == name, *waits)
                    .values(why=text, changed=number)
                )

    def removed(self, run_ids: Sequence[str]) -> None:
        """Note that the folders of runs are gone."""
        freed: Counter[str] = Counter()
        with self.writing() as link:
            number = _count_change(link)
            for ids in _portions(run_ids):
                gone = (
                    update(runs)
                    .where(runs.c.id.in_(ids), runs.c.state == QueueState.ENDED)
                    .where(runs.c.removed.is_(False))
                    .values(removed=True, changed=number)
                    .returning(runs.c.team, runs.c.bytes)
                )
                for row in link.execute(gone):
                    freed[row.team] += row.bytes
            for team, count in sorted(freed.items()):
                _keep_bytes(link, team, -count)

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
        query = _listing().where(runs.c.removed == false())
        query = query.order_by(runs.c.queued_at.desc(), runs.c.id.desc())
        if team is not None:
            query = query.where(runs.c.team == team)
        if state is not None:
            query = query.where(runs.c.state == state)
        with self.reading() as link:
            if after:
                place = select(runs.c.queued_at).where(runs.c.id == after)
                if team is not None:
                    place = place.where(runs.c.team == team)
                at = link.execute(place).scalar()
                if at is None:
                    return []
                query = query.where(tuple_(runs.c.queued_at, runs.c.id) < (at, after))
            return _several(link, query.limit(limit))

    def unfinished(self) -> list[QueueRow]:
        """Return the runs that have not ended, the oldest first; no parcels."""
        query = (
            _listing()
            .where(runs.c.state.in_(_UNFINISHED))
            .order_by(runs.c.queued_at, runs.c.id)
        )
        with self.reading() as link:
            return _several(link, query)

    def ended_between(self, after: int, until: int) -> list[QueueRow]:
        """Return the runs whose ends are among these changes; no parcels."""
        query = _listing().where(runs.c.changed > after, runs.c.changed <= until)
        query = query.where(runs.c.state == QueueState.ENDED, runs.c.removed == false())
        with self.reading() as link:
            return _several(link, query.order_by(runs.c.changed))

    def started_since(self, since: float) -> list[QueueRow]:
        """Return the runs that started since, the oldest first; no parcels."""
        query = (
            _listing()
            .where(runs.c.started_at >= since)
            .order_by(runs.c.started_at, runs.c.id)
        )
        with self.reading() as link:
            return _several(link, query)

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
        query = (
            _listing()
            .where(runs.c.removed == false(), runs.c.ended_at < ended_before)
            .order_by(runs.c.ended_at, runs.c.id)
        )
        if team is not None:
            query = query.where(runs.c.team == team)
        if role is not None:
            query = query.where(runs.c.role == role)
        with self.reading() as link:
            return _several(link, query.limit(limit))

    def use(self, team: str, since: float) -> TeamUse:
        """Return what a team has, and how many runs it queued since.

        Its bytes are those of its runs that are kept, and of its uploads at full size.
        """
        own = runs.c.team == team
        recent = (own, runs.c.queued_at >= since)
        count = select(func.count()).select_from(runs)
        uploaded = select(func.sum(uploads.c.size)).where(uploads.c.team == team)
        kept = select(team_bytes.c.bytes).where(team_bytes.c.team == team)
        query = select(
            count.where(own, runs.c.state == QueueState.WAITING).scalar_subquery(),
            count.where(own, runs.c.state.in_(_BEGUN)).scalar_subquery(),
            count.where(*recent).scalar_subquery(),
            select(func.min(runs.c.queued_at)).where(*recent).scalar_subquery(),
            uploaded.scalar_subquery(),
            kept.scalar_subquery(),
        )
        with self.reading() as link:
            waiting, active, queued, oldest, up, bytes_ = link.execute(query).one()
        return TeamUse(waiting, active, queued, oldest, int(up or 0) + (bytes_ or 0))

    def gpu_use(self, since: float, now: float) -> dict[str, GpuDay]:
        """Return how long each team had GPUs, by its runs that started since."""
        took_s = func.coalesce(runs.c.ended_at, now) - runs.c.started_at
        query = (
            select(
                runs.c.team,
                func.sum(runs.c.gpus * took_s),
                func.min(runs.c.started_at),
            )
            .where(runs.c.started_at >= since, runs.c.gpus > 0)
            .group_by(runs.c.team)
        )
        with self.reading() as link:
            return {team: GpuDay(*use) for team, *use in link.execute(query)}

    def changes(self) -> int:
        """Return a number that grows with each change of a run."""
        with self.reading() as link:
            return int(link.execute(select(server.c.changes)).scalar_one())

    def _changed(
        self,
        run_id: str,
        guard: Sequence[ColumnElement[bool]],
        new: dict[str, object],
        *,
        forget: bool = False,
    ) -> bool:
        """Change a run by one guarded statement; return whether it was as expected."""
        expected = (runs.c.id == run_id, *guard)
        # Looked at first, so that who comes too late does not wait for who writes.
        with self.reading() as link:
            if link.execute(select(runs.c.id).where(*expected)).first() is None:
                return False
        with self.writing() as link:
            number = _count_change(link)
            change = update(runs).where(*expected)
            if not link.execute(change.values(**new, changed=number)).rowcount:
                rollback(link)
                return False
            if forget:
                _forget_request(link, run_id)
            return True


def _listing() -> Select[Any]:
    """Return a query of runs without what is large of them."""
    return select(*_FIELDS)


def _one(link: Connection, run_id: str) -> QueueRow | None:
    """Return a whole run."""
    query = (
        select(
            *_FIELDS,
            func.coalesce(parcels.c.parcel, literal(b"")).label("parcel"),
            func.coalesce(parcels.c.secrets, "").label("secrets"),
        )
        .outerjoin(parcels, parcels.c.run == runs.c.id)
        .where(runs.c.id == run_id)
    )
    row = link.execute(query).mappings().first()
    return None if row is None else _row(row)


def _several(link: Connection, query: Select[Any]) -> list[QueueRow]:
    """Return the runs of a listing."""
    return [_row(row) for row in link.execute(query).mappings()]


def _add(link: Connection, row: QueueRow, changed: int) -> bool:
    """Add a run; return False if there is one of its id."""
    values = {c.name: getattr(row, c.name) for c in _FIELDS} | {"changed": changed}
    adding = insert(link, runs).values(**values, cancelled_at=None)
    added = adding.on_conflict_do_nothing(index_elements=["id"]).returning(runs.c.id)
    if link.execute(added).first() is None:
        return False
    large = {"run": row.id, "parcel": row.parcel, "secrets": row.secrets}
    link.execute(parcels.insert().values(**large))
    return True


def _count_change(link: Connection) -> int:
    """Count a change of runs, and return its number.

    It comes first in each transaction that changes a run: its row is locked up to the
    end of that, so that numbers grow in the order in which changes can be seen, and no
    two transactions wait for each other.
    """
    change = update(server).values(changes=server.c.changes + 1)
    return int(link.execute(change.returning(server.c.changes)).scalar_one())


def _forget_request(link: Connection, run_id: str) -> None:
    """Forget a run's parcel and secrets, which only its start needs."""
    link.execute(delete(parcels).where(parcels.c.run == run_id))


def _keep_bytes(link: Connection, team: str, more: int) -> None:
    """Add to the bytes of a team's runs that are kept."""
    if more:
        adding = insert(link, team_bytes).values(team=team, bytes=more)
        total = team_bytes.c.bytes + adding.excluded.bytes
        link.execute(
            adding.on_conflict_do_update(index_elements=["team"], set_={"bytes": total})
        )


def _portions(ids: Iterable[str]) -> list[list[str]]:
    """Return ids in lists short enough for a statement."""
    every = sorted(set(ids))
    return [every[i : i + _MOST_AT_ONCE] for i in range(0, len(every), _MOST_AT_ONCE)]


def _row(row: RowMapping) -> QueueRow:
    values: dict[str, Any] = dict(row)
    values["state"] = QueueState(values["state"])
    values["reason"] = values["reason"] and _REASONS[values["reason"]]
    # A listing has no parcel.
    return QueueRow(**({"parcel": b""} | values))
