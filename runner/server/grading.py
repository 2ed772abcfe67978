"""Which submissions count, what they earn, and the boards: of one server's term."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path

from msgspec.structs import replace

from runner import milestones
from runner.core.errors import RaiError
from runner.core.milestone import Counted, Milestone
from runner.database import Store
from runner.scheduling.queue import STAFF
from runner.server import logs
from runner.submission import course, standings
from runner.wire.submissions import StandingsPage, Submission

Kept = dict[tuple[str, Counted], tuple[int, list[Submission], list[Submission]]]
"""What boards are made of, by milestone, with the store's count of changes then."""


class Grading:
    """The grading of a server, by milestones of ours and of a site's ``folders``."""

    def __init__(
        self,
        store: Store,
        folders: Sequence[Path],
        term: str,
        kept: Kept | None = None,
    ) -> None:
        self._store, self._folders, self.term = store, folders, term
        self._kept = {} if kept is None else kept

    def milestone(self, name: str, team: str = "") -> Milestone:
        """Return a milestone, with the deadline that it has for a team.

        Raises:
            RaiError: there is none, or its file is wrong.
        """
        found = milestones.find(name, self._folders)
        if not (team and found.deadline):
            return found
        return later(found, self._store.extended_s(team, found.name, self.term))

    def counting(self, milestone: Milestone) -> list[Submission]:
        """Return the submission that counts of each team."""
        able = self._store.may_count(milestone.name, self.term)
        teams: dict[str, list[Submission]] = {}
        for one in able:
            if one.role != STAFF.name:
                teams.setdefault(one.team, []).append(one)
        chosen = {course.counting(its, milestone.counting) for its in teams.values()}
        return [one for one in able if one.number in chosen]

    def earned(self, one: Submission, milestone: Milestone) -> float | None:
        """Return the points of one that ended; None where the milestone gives none."""
        if one.rehearsal or one.rerun_of is not None:
            return None
        if not one.may_count:
            return 0.0 if milestone.points else None
        figures = standings.best(one)
        ms, ratio = (figures.ms, figures.ratio) if figures else (None, None)
        return milestone.earned(ms, ratio, late=one.late_s > 0)

    def marked(self, some: Iterable[Submission]) -> list[Submission]:
        """Return submissions with which of them count, and what they earn."""
        known: dict[str, Milestone | None] = {}
        counting: dict[tuple[str, str, str], int | None] = {}
        found = []
        for one in some:
            if one.ended_at is None:  # its client asks all the time
                found.append(one)
                continue
            if one.milestone not in known:
                known[one.milestone] = self._readable(one.milestone)
            milestone = known[one.milestone]
            its = one.milestone, one.term, one.team
            if its not in counting and one.may_count:
                usual = Counted.BEST if one.trust.ranks else Counted.LATEST
                how = milestone.counting if milestone else usual
                counting[its] = course.counting(self._store.may_count(*its), how)
            counts = counting.get(its) == one.number
            points = self.earned(one, milestone) if milestone else None
            found.append(replace(one, counts=counts, points=points))
        return found

    def for_staff(self, some: Iterable[Submission]) -> list[Submission]:
        """Return marked submissions with what staff may want to look at."""
        every = list(some)
        teams: dict[tuple[tuple[str, str], ...], set[str]] = {}
        for name in {one.milestone for one in every}:
            for one in self._store.may_count(name, self.term):
                teams.setdefault(_sources(one), set()).add(one.team)
        found = []
        for one in every:
            marks = one.measured.marks if one.measured else ()
            sources = _sources(one)
            alike = sorted(teams.get(sources, set()) - {one.team}) if sources else []
            if alike:
                marks = (*marks, f"the same sources as {', '.join(alike)}")
            found.append(replace(one, marks=marks))
        return found

    def standings(
        self, milestone: Milestone, team: str, *, staff: bool
    ) -> StandingsPage:
        """Return the boards of a milestone as a team sees them."""
        changes = self._store.changes()
        its = milestone.name, milestone.counting
        kept = self._kept.get(its)
        if kept is None or kept[0] != changes:
            again = self._store.reruns(milestone.name, self.term)
            kept = changes, self.counting(milestone), again
            self._kept[its] = kept
        _, counting, again = kept
        names = self._store.pseudonyms(self.term, {one.team for one in counting})
        due = milestone.deadline
        return StandingsPage(
            milestone.name,
            milestone.title,
            milestone.trust,
            due.timestamp() if due else None,
            standings.boards(counting, again, names, team, staff=staff),
        )

    def _readable(self, name: str) -> Milestone | None:
        try:
            return self.milestone(name)
        except RaiError as error:  # its file is gone, or is being written
            logs.step("milestone_unread", milestone=name, why=str(error))
            return None


def later(milestone: Milestone, seconds: float) -> Milestone:
    """Return a milestone with a deadline that is so much later."""
    due = milestone.deadline
    return replace(milestone, deadline=due and due + timedelta(seconds=seconds))


def _sources(one: Submission) -> tuple[tuple[str, str], ...]:
    """Return the names and digests of the files that were measured."""
    host = one.measured.host if one.measured else None
    return tuple(sorted(host.sources.items())) if host else ()
