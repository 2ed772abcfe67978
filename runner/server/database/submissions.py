"""Submissions: their receipts, the runs that judge them, and their verdicts."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import convert, json
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    func,
    or_,
    select,
    update,
)

from runner.core import Reason
from runner.core.measurement import Measurement
from runner.core.wire import Decision, StageRun, Submission
from runner.server.database.connections import Transactions, put
from runner.server.database.runs import count_change, insert_run, keep_bytes
from runner.server.database.tables import extensions, pseudonyms, runs, submissions
from runner.server.scheduling import QueueRow

TOLD = ("counts", "points", "marks")
"""What is not kept, but told by what is."""

_FIELDS = [name for name in Submission.__struct_fields__ if name not in TOLD]
_ALL = select(*(submissions.c[name] for name in _FIELDS))
_UNJUDGED = submissions.c.ended_at.is_(None)
_SAME_AGAIN = (
    *("team", "person", "role", "milestone", "trust", "term"),
    *("sha256", "project", "commit", "attempt", "attempts"),
)
"""What one has of the submission that it measures again."""

Receipt = Callable[[int, float, int], Submission]
"""Makes a submission of its number, its time, and how many attempts were used before;
raises what refuses it."""

_HOW = (
    "amber bold brave bright brisk calm clear clever cool copper coral crisp daring "
    "early eager fair fleet gentle glad golden green hardy humble jolly keen kind "
    "light lively lucky merry mild neat nimble noble patient plain proud quick quiet "
    "rapid ready rosy sharp silver sleek smooth spry steady sturdy sunny swift tidy "
    "vivid warm wise witty young "
)
_WHO = (
    "adder badger beaver bison bittern crane curlew deer dolphin eagle egret eland "
    "falcon ferret finch fox gannet gazelle gecko heron hare ibex ibis jackal jay "
    "kestrel kite lark lemur linnet lynx marten merlin mole newt ocelot oriole osprey "
    "otter owl panda petrel plover puffin quail raven robin seal shrew skua sparrow "
    "stoat stork swan tapir teal tern thrush toad trout vole walrus wombat wren yak "
    "zebra "
)
"""Of a word each is a name such as `quiet heron`, for leaderboards that others see."""


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
        term: str | None = None,
    ) -> list[Submission]:
        """Return submissions, the newest first; of all teams, and to all milestones."""
        wanted = [submissions.c.team == team] if team is not None else []
        wanted += [submissions.c.milestone == milestone] if milestone else []
        wanted += [submissions.c.term == term] if term is not None else []
        return self._found(*wanted, limit=limit)

    def submitted_uploads(self) -> list[tuple[str, str]]:
        """Return team and SHA-256 of each upload that is a submission."""
        query = select(submissions.c.team, submissions.c.sha256).distinct()
        with self.reading() as link:
            return [(row.team, row.sha256) for row in link.execute(query)]

    def may_count(
        self, milestone: str, term: str, team: str | None = None
    ) -> list[Submission]:
        """Return the submissions of a milestone that may count, of a team or of all."""
        able = or_(
            submissions.c.reason == Reason.DONE,
            submissions.c.decided == Decision.COUNT,
        )
        wanted = [able, submissions.c.term == term]
        wanted += [submissions.c.milestone == milestone]
        wanted += [submissions.c.team == team] if team is not None else []
        return [one for one in self._found(*wanted) if one.may_count]

    def reruns(self, milestone: str, term: str) -> list[Submission]:
        """Return what measured submissions of a milestone again, and ended well."""
        done = submissions.c.reason == Reason.DONE
        its = (submissions.c.milestone == milestone, submissions.c.term == term)
        return self._found(done, submissions.c.rerun_of.is_not(None), *its)

    def add_reruns(self, some: Sequence[Submission], now: float) -> list[Submission]:
        """Have submissions judged again, in this order; return the new rows."""
        newest = select(func.coalesce(func.max(submissions.c.number), 0))
        made = []
        with self.writing() as link:
            count_change(link)
            number = int(link.execute(newest).scalar_one())
            for at, one in enumerate(some, number + 1):
                again = Submission(
                    **{name: getattr(one, name) for name in _SAME_AGAIN},
                    number=at,
                    key=f"again-{at}",
                    received_at=max(now, one.received_at),
                    late_s=0.0,
                    rehearsal=False,
                    charged=False,
                    rerun_of=one.number,
                )
                link.execute(submissions.insert().values(_values(again)))
                made.append(again)
        return made

    def decide(self, number: int, what: Decision, why: str) -> None:
        """Have a submission count, or not, whatever its verdict is."""
        change = update(submissions).where(submissions.c.number == number)
        with self.writing() as link:
            count_change(link)
            link.execute(change.values(decided=what, decided_why=why))

    def milestones_of(self, term: str) -> dict[str, float]:
        """Return the milestones of a term, with the newest receipt or verdict of each.

        Those of closed submissions are left out.
        """
        newest = func.max(func.coalesce(submissions.c.ended_at, 1e11))
        query = select(submissions.c.milestone, newest)
        open_ = (submissions.c.term == term, submissions.c.closed.is_(False))
        query = query.where(*open_).group_by(submissions.c.milestone)
        with self.reading() as link:
            return {row[0]: float(row[1]) for row in link.execute(query)}

    def close_term(self, term: str) -> int:
        """Keep no bytes and runs of a term's submissions for good; return how many."""
        of = (submissions.c.term == term, submissions.c.closed.is_(False))
        its = (submissions.c.number == runs.c.submission, runs.c.removed.is_(False))
        freed = select(runs.c.team, func.sum(runs.c.bytes)).group_by(runs.c.team)
        freed = freed.where(*of, *its, submissions.c.rehearsal.is_(False))
        with self.writing() as link:
            count_change(link)
            # Its team's bound counts them from now on, until they are removed.
            for team, size in sorted(map(tuple, link.execute(freed))):
                keep_bytes(link, team, int(size))
            change = update(submissions).where(*of).values(closed=True)
            return int(link.execute(change).rowcount)

    def extend(
        self,
        team: str,
        milestone: str,
        term: str,
        seconds: float,
        why: str,
        late_s_at: Callable[[float], float],
    ) -> None:
        """Move a team's deadline of a milestone by so much from the milestone's own.

        What it submitted before is as late then as ``late_s_at`` says of its time.
        """
        values = {"seconds": seconds, "why": why}
        key = {"team": team, "milestone": milestone, "term": term}
        of, number = submissions.c, submissions.c.number
        charged = (of.rehearsal.is_(False), of.rerun_of.is_(None))
        own = select(number, of.received_at).where(_of(**key), *charged)
        with self.writing() as link:
            count_change(link)
            put(link, extensions, key | values, values)
            for row in link.execute(own).all():
                late = {"late_s": late_s_at(row.received_at)}
                link.execute(update(submissions).where(number == row.number), late)

    def extended_s(self, team: str, milestone: str, term: str) -> float:
        """Return by how much a team's deadline of a milestone was moved."""
        of = extensions.c
        own = and_(of.team == team, of.milestone == milestone, of.term == term)
        with self.reading() as link:
            return float(link.execute(select(of.seconds).where(own)).scalar() or 0.0)

    def pseudonyms(self, term: str, wanted: Iterable[str]) -> dict[str, str]:
        """Return the names of teams on a term's leaderboards; new ones get one."""
        query = select(pseudonyms.c.team, pseudonyms.c.name)
        query = query.where(pseudonyms.c.term == term)
        with self.reading() as link:
            found = _pairs(link, query)
        if not (new := sorted(set(wanted) - found.keys())):
            return found
        with self.writing() as link:
            count_change(link)  # which others that write wait for
            found = _pairs(link, query)
            free = iter(_shuffled(set(found.values()), len(new)))
            for team in new:
                name = found.setdefault(team, next(free))
                put(link, pseudonyms, {"team": team, "term": term, "name": name})
        return found

    def unjudged(self) -> list[Submission]:
        """Return those without a verdict, the newest first."""
        return self._found(_UNJUDGED)

    def waiting_of(self, team: str) -> int:
        """Return how many of a team's own have no verdict yet."""
        own = (submissions.c.team == team, submissions.c.rerun_of.is_(None))
        query = select(func.count()).select_from(submissions).where(_UNJUDGED, *own)
        with self.reading() as link:
            return int(link.execute(query).scalar_one())

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
            count_change(link)
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


def _pairs(link: Connection, query: Select[Any]) -> dict[str, str]:
    return {row.team: row.name for row in link.execute(query)}


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


def _shuffled(taken: set[str], count: int) -> list[str]:
    """Return so many names that are not taken, in an order that tells nothing."""
    pairs = (f"{how} {who}" for how in _HOW.split() for who in _WHO.split())
    every = [name for name in pairs if name not in taken]
    every += [f"team {n}" for n in range(1, count - len(every) + 1)]
    return secrets.SystemRandom().sample(every, count)
