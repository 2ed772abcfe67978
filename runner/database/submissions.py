"""Submissions: their receipts, the runs that judge them, and their verdicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import convert, json
from sqlalchemy import ColumnElement, Connection, Row, and_, func, select, update

from runner.core.ending import Reason
from runner.core.measurement import Measurement
from runner.database.connections import Transactions
from runner.database.runs import count_change, insert_run
from runner.database.tables import submissions
from runner.scheduling.queue import QueueRow
from runner.wire.submissions import StageRun, Submission

_FIELDS = [name for name in Submission.__struct_fields__ if name != "counts"]
_ALL = select(*(submissions.c[name] for name in _FIELDS))
_UNJUDGED = submissions.c.ended_at.is_(None)

Receipt = Callable[[int, float, int], Submission]
"""Makes a submission of its number, its time, and how many attempts were used before;
raises what refuses it."""


class Submissions(Transactions):
    """The part of a store that knows submissions, which are never deleted."""

    def add_submission(
        self, team: str, key: str, milestone: str, term: str, now: float, make: Receipt
    ) -> tuple[Submission, bool]:
        """Add a submission, unless the team's of this key is there; tell which it is.

        Number, time and attempt are told in the transaction that adds it. The time is
        never before that of another: no clock that is set back makes a late one early.
        """
        own = and_(submissions.c.team == team, submissions.c.key == key)
        newest = select(
            func.coalesce(func.max(submissions.c.number), 0),
            func.coalesce(func.max(submissions.c.received_at), now),
        )
        with self.writing() as link:
            count_change(link)  # which others that write wait for
            if found := link.execute(_ALL.where(own)).first():
                link.rollback()
                return _submission(found), False
            number, latest = link.execute(newest).one()
            used = _used(link, _of(team, milestone, term))
            made = make(number + 1, max(now, latest), used)
            link.execute(submissions.insert().values(_values(made)))
        return made, True

    def submission_of(self, team: str, key: str) -> Submission | None:
        """Return a team's submission of a key."""
        found = self._found(submissions.c.team == team, submissions.c.key == key)
        return found[0] if found else None

    def submission(self, number: int) -> Submission | None:
        """Return a submission."""
        found = self._found(submissions.c.number == number)
        return found[0] if found else None

    def submissions(
        self,
        team: str | None = None,
        milestone: str = "",
        limit: int | None = None,
    ) -> list[Submission]:
        """Return submissions, the newest first; of all teams, and to all milestones."""
        wanted = [submissions.c.team == team] if team is not None else []
        wanted += [submissions.c.milestone == milestone] if milestone else []
        return self._found(*wanted, limit=limit)

    def ended_well(self, team: str, milestone: str, term: str) -> list[Submission]:
        """Return a team's submissions of a milestone that may count."""
        done = submissions.c.reason == Reason.DONE
        own = _of(team, milestone, term)
        return [one for one in self._found(own, done) if one.may_count]

    def unjudged(self) -> list[Submission]:
        """Return those without a verdict, the newest first."""
        return self._found(_UNJUDGED)

    def attempts_used(self, team: str, milestone: str, term: str) -> int:
        """Return how many attempts of a team count."""
        with self.reading() as link:
            return _used(link, _of(team, milestone, term))

    def latest_receipt(self) -> float:
        """Return the time of the newest submission, 0.0 if there is none."""
        newest = select(func.coalesce(func.max(submissions.c.received_at), 0.0))
        with self.reading() as link:
            return float(link.execute(newest).scalar_one())

    def judge(
        self, before: Submission, after: Submission, run: QueueRow | None = None
    ) -> bool:
        """Take a submission on by a step, with the run that it waits for then.

        Return False where it is not as ``before`` any more: another took that step.
        """
        changes = ("runs", "reason", "message", "ended_at", "measured", "charged")
        values = _values(after)
        as_known = submissions.c.runs == _values(before)["runs"]
        own = submissions.c.number == before.number
        change = update(submissions).where(own, _UNJUDGED, as_known)
        change = change.values({name: values[name] for name in changes})
        with self.writing() as link:
            number = count_change(link)
            if not link.execute(change).rowcount:
                link.rollback()
                return False
            if run is not None:
                insert_run(link, run, number)
        return True

    def choose(self, chosen: Submission) -> None:
        """Have a submission be the one that its team chose of the milestone's."""
        own = _of(chosen.team, chosen.milestone, chosen.term)
        is_it = submissions.c.number == chosen.number
        with self.writing() as link:
            link.execute(update(submissions).where(own).values(chosen=is_it))

    def _found(
        self, *wanted: ColumnElement[bool], limit: int | None = None
    ) -> list[Submission]:
        query = _ALL.where(*wanted).order_by(submissions.c.number.desc())
        with self.reading() as link:
            return [_submission(row) for row in link.execute(query.limit(limit))]


def _of(team: str, milestone: str, term: str) -> ColumnElement[bool]:
    return and_(
        submissions.c.team == team,
        submissions.c.milestone == milestone,
        submissions.c.term == term,
    )


def _used(link: Connection, own: ColumnElement[bool]) -> int:
    count = select(func.count()).select_from(submissions)
    charged = submissions.c.charged.is_(True)
    return int(link.execute(count.where(own, charged)).scalar_one())


def _values(one: Submission) -> dict[str, object]:
    values = {name: getattr(one, name) for name in _FIELDS}
    measured = json.encode(one.measured).decode() if one.measured else None
    return {**values, "runs": json.encode(one.runs).decode(), "measured": measured}


def _submission(row: Row[Any]) -> Submission:
    values = dict(zip(_FIELDS, row, strict=True))
    values["runs"] = json.decode(values["runs"], type=tuple[StageRun, ...])
    if values["measured"] is not None:
        values["measured"] = json.decode(values["measured"], type=Measurement)
    return convert(values, Submission, from_attributes=True)
