"""Runs as they are asked for: one, a page, those that have not ended, a team's use."""

from __future__ import annotations

from sqlalchemy import false, func, select, tuple_

from runner.database import run_rows
from runner.database.base import RunRow, TeamUse
from runner.database.connections import Transactions
from runner.database.tables import runs, server, team_bytes, uploads
from runner.wire.remote_runs import QueueState

_BEGUN = (QueueState.STARTING, QueueState.RUNNING)
_UNFINISHED = (QueueState.WAITING, *_BEGUN)


class RunLists(Transactions):
    """The part of a store that reads runs."""

    def run(self, run_id: str) -> RunRow | None:
        """Return a run."""
        with self.reading() as link:
            return run_rows.one(link, run_id)

    def runs(
        self,
        team: str | None = None,
        state: QueueState | None = None,
        after: str = "",
        limit: int = 100,
    ) -> list[RunRow]:
        """Return runs, the newest first, from the one after ``after``; no parcels."""
        query = run_rows.listing().order_by(runs.c.queued_at.desc(), runs.c.id.desc())
        if team is not None:
            query = query.where(runs.c.team == team)
        if state is not None:
            query = query.where(runs.c.state == state)
        with self.reading() as link:
            if after:
                place = select(runs.c.queued_at).where(runs.c.id == after)
                at = link.execute(place).scalar()
                if at is None:
                    return []
                query = query.where(tuple_(runs.c.queued_at, runs.c.id) < (at, after))
            return run_rows.several(link, query.limit(limit))

    def unfinished(self) -> list[RunRow]:
        """Return the runs that have not ended, the oldest first; no parcels."""
        query = (
            run_rows.listing()
            .where(runs.c.state.in_(_UNFINISHED))
            .order_by(runs.c.queued_at, runs.c.id)
        )
        with self.reading() as link:
            return run_rows.several(link, query)

    def started_since(self, since: float) -> list[RunRow]:
        """Return the runs that started since, the oldest first; no parcels."""
        query = (
            run_rows.listing()
            .where(runs.c.started_at >= since)
            .order_by(runs.c.started_at, runs.c.id)
        )
        with self.reading() as link:
            return run_rows.several(link, query)

    def removable(
        self,
        ended_before: float,
        limit: int = 1000,
        role: str | None = None,
        team: str | None = None,
    ) -> list[RunRow]:
        """Return ended runs whose folders may go, the oldest first; no parcels.

        With ``role`` only those that were queued in this role, with ``team`` only its.
        """
        query = (
            run_rows.listing()
            .where(runs.c.removed == false(), runs.c.ended_at < ended_before)
            .order_by(runs.c.ended_at, runs.c.id)
        )
        if team is not None:
            query = query.where(runs.c.team == team)
        if role is not None:
            query = query.where(runs.c.role == role)
        with self.reading() as link:
            return run_rows.several(link, query.limit(limit))

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

    def changes(self) -> int:
        """Return a number that grows with each change of a run."""
        with self.reading() as link:
            return int(link.execute(select(server.c.changes)).scalar_one())
