"""Which submissions count, what they earn, the standings, and files for staff."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec.structs import replace

from runner import pack
from runner.core import MIB, Problem
from runner.core.errors import RaiError, UsageError
from runner.core.measurement import MEASUREMENT_FILE, to_json
from runner.core.milestone import Counted, Milestone
from runner.core.quantities import TIME
from runner.core.screen import cell
from runner.core.wire import Decision, StandingsPage, Submission
from runner.server import messages
from runner.server.database import Store
from runner.server.paths import ServerFolder, upload_path
from runner.server.scheduling import STAFF
from runner.spec import milestones
from runner.submit import files as submitted
from runner.submit import standings
from runner.submit.outcome import ACCEPTED
from runner.system import files

FILE = "grades.csv"
HEADS = (
    *("person", "team", "submission", "submitted_at", "late_by", "verdict"),
    *("time_ms", "ratio", "rank", "points"),
)
OUTPUT, SENT = "output.txt", "submitted"
MOST_OUTPUT = 256 * MIB

_Counting = tuple[int, list[Submission], list[Submission]]
"""The store's count of changes, what counts of each team then, and the reruns."""


class Grading:
    """The grading of a server, by milestones of ours and of a site's ``folders``."""

    def __init__(self, store: Store, folders: Sequence[Path], term: str) -> None:
        self._store, self._folders, self.term = store, folders, term
        self._kept: dict[tuple[str, Counted], _Counting] = {}

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
        chosen = {standings.counting(its, milestone.counting) for its in teams.values()}
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
                known[one.milestone] = self.readable(one.milestone)
            milestone = known[one.milestone]
            its = one.milestone, one.term, one.team
            if its not in counting and one.may_count:
                usual = Counted.BEST if one.trust.ranks else Counted.LATEST
                how = milestone.counting if milestone else usual
                counting[its] = standings.counting(self._store.may_count(*its), how)
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

    def extend(self, team: str, name: str, by: str, why: str) -> Milestone:
        """Move a team's deadline by a duration, such as 2d; return its milestone then.

        Raises:
            UsageError: there is no such duration, team or deadline.
        """
        seconds = TIME.parse(by) if by != "0s" else 0.0
        if seconds is None:
            text = f"{by!r} is no duration"
            raise UsageError(Problem(text, hint="write e.g. 2d, 12h or 0s"))
        found = self.milestone(name)
        if found.deadline is None:
            raise UsageError(f"{found.name} has no deadline")
        if not any(person.team == team for person in self._store.people()):
            text = f"there is no team {team!r}"
            raise UsageError(Problem(text, hint="`rai server people` lists them"))
        moved = later(found, seconds)
        its = team, found.name, self.term, seconds, why
        self._store.extend(*its, moved.late_s_at)
        return moved

    def decide(self, number: int, what: Decision, why: str) -> Submission:
        """Have a submission count, or not, whatever its verdict is; return it.

        Raises:
            UsageError: there is none, or it has no verdict of its own.
        """
        one = self._store.submission(number)
        if one is None:
            hint = "`rai submissions --all` lists them"
            raise UsageError(Problem(f"there is no submission {number}", hint=hint))
        if one.ended_at is None or one.rerun_of is not None:
            raise UsageError(f"submission {number} has no verdict of its own")
        self._store.decide(number, what, why)
        return one

    def standings(
        self, milestone: Milestone, team: str, *, staff: bool
    ) -> StandingsPage:
        """Return the standings of a milestone as a team sees them."""
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
            standings.leaderboards(counting, again, names, team, staff=staff),
        )

    def readable(self, name: str, team: str = "") -> Milestone | None:
        """Return a milestone, as above; None where its file cannot be read now."""
        try:
            return self.milestone(name, team)
        except RaiError as error:  # its file is gone, or is being written
            messages.step("milestone_unread", milestone=name, why=str(error))
            return None


def later(milestone: Milestone, seconds: float) -> Milestone:
    """Return a milestone with a deadline that is so much later."""
    due = milestone.deadline
    return replace(milestone, deadline=due and due + timedelta(seconds=seconds))


def _sources(one: Submission) -> tuple[tuple[str, str], ...]:
    """Return the names and digests of the files that were measured."""
    host = one.measured.host if one.measured else None
    return tuple(sorted(host.sources.items())) if host else ()


def export(
    grading: Grading,
    store: Store,
    folder: ServerFolder,
    milestone: Milestone,
    into: Path,
) -> tuple[int, list[str]]:
    """Write the grades of a milestone; return how many teams have one, and problems.

    ``into`` is an empty folder. A person has a row in any case. A team's points are the
    most that any of its submissions earns: another one never takes some away.
    """
    counting = {one.team: one for one in grading.counting(milestone)}
    points = _points(grading, store, milestone)
    page = grading.standings(milestone, "", staff=True)
    ranks = {one.number: one.rank for table in page.boards for one in table.standings}
    problems = []
    with (into / FILE).open("x", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(HEADS)
        for person in store.people():
            if person.role == STAFF.name:
                continue
            one = counting.get(person.team)
            usual = 0.0 if milestone.points else None
            cells = _cells(one, ranks, points.get(person.team, usual))
            rows.writerow([cell(text) for text in (person.person, person.team, *cells)])
    for team, one in counting.items():
        try:
            _folder(folder, milestone, one, into / team)
        except (RaiError, OSError) as error:
            problems.append(f"{team}: {error}")
    return len(counting), problems


def _points(grading: Grading, store: Store, milestone: Milestone) -> dict[str, float]:
    """Return the most that a submission of each team earns."""
    most: dict[str, float] = {}
    for one in store.may_count(milestone.name, grading.term):
        if (points := grading.earned(one, milestone)) is not None:
            most[one.team] = max(points, most.get(one.team, 0.0))
    return most


def _cells(
    one: Submission | None, ranks: dict[int, int], points: float | None
) -> Iterator[str]:
    """Yield the cells of a row behind the person and the team."""
    earned = "" if points is None else f"{points:g}"
    if one is None:
        yield from ("", "", "", "none counts", "", "", "", earned)
        return
    best = standings.best(one)
    yield str(one.number)
    at = datetime.fromtimestamp(one.received_at, UTC)
    yield at.isoformat(timespec="seconds")
    yield f"{one.late_s:.0f} s" if one.late_s else ""
    yield "counted by staff" if one.decided else ACCEPTED[one.trust]
    yield f"{best.ms:.6g}" if best and best.ms is not None else ""
    yield f"{best.ratio:.6g}" if best and best.ratio is not None else ""
    yield str(ranks.get(one.number, ""))
    yield earned


def _folder(
    folder: ServerFolder, milestone: Milestone, one: Submission, into: Path
) -> None:
    """Write what a team submitted; its name, which ``teams`` checked, is no path."""
    sent = upload_path(folder.uploads, one.team, one.sha256)
    into.mkdir()
    pack.unpack(sent, into / SENT, submitted.caps(milestone), called="it")
    if one.measured is not None:
        (into / MEASUREMENT_FILE).write_bytes(to_json(one.measured))
    for last in one.runs[-1:]:
        output = folder.home_of_runs().run(last.run).stdout
        with suppress(FileNotFoundError):
            (into / OUTPUT).write_bytes(files.read(output, MOST_OUTPUT))
