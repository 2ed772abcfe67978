"""What `rai server export` writes: grades.csv, and a folder for each team."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from runner import archive, files
from runner.core.errors import RaiError
from runner.core.measurement import MEASUREMENT_FILE, to_json
from runner.core.milestone import Milestone
from runner.core.screen import cell
from runner.core.units import MIB
from runner.database import Store
from runner.scheduling.queue import STAFF
from runner.server.grading import Grading
from runner.server.paths import ServerFolder, upload_path
from runner.submission import files as submitted
from runner.submission import standings
from runner.wire.submissions import Submission

FILE = "grades.csv"
HEADS = (
    *("person", "team", "submission", "submitted_at", "late_by", "verdict"),
    *("time_ms", "ratio", "rank", "points"),
)
OUTPUT, SENT = "output.txt", "submitted"
MOST_OUTPUT = 256 * MIB


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
    page = grading.standings(milestone, "", staff=True)
    ranks = {
        place.number: place.rank for board in page.boards for place in board.standings
    }
    problems = []
    with (into / FILE).open("x", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(HEADS)
        for person in store.people():
            if person.role == STAFF.name:
                continue
            one = counting.get(person.team)
            cells = _cells(one, ranks, _points(grading, store, milestone, person.team))
            rows.writerow([cell(text) for text in (person.person, person.team, *cells)])
    for team, one in counting.items():
        try:
            _folder(store, folder, milestone, one, into / _name(team))
        except (RaiError, OSError) as error:
            problems.append(f"{team}: {error}")
    return len(counting), problems


def _points(
    grading: Grading, store: Store, milestone: Milestone, team: str
) -> float | None:
    every = store.may_count(milestone.name, grading.term, team)
    earned = [grading.earned(one, milestone) for one in every]
    usual = 0.0 if milestone.points else None
    return max((points for points in earned if points is not None), default=usual)


def _cells(
    one: Submission | None, ranks: dict[int, int], points: float | None
) -> Iterator[str]:
    """Yield the cells of a row behind the person and the team."""
    earned = "" if points is None else f"{points:g}"
    if one is None:
        yield from ("", "", "", "none", "", "", "", earned)
        return
    best = standings.best(one)
    yield str(one.number)
    at = datetime.fromtimestamp(one.received_at, UTC)
    yield at.isoformat(timespec="seconds")
    yield f"{one.late_s:.0f} s" if one.late_s else ""
    yield one.decided or str(one.reason)
    yield f"{best.ms:.6g}" if best and best.ms is not None else ""
    yield f"{best.ratio:.6g}" if best and best.ratio is not None else ""
    yield str(ranks.get(one.number, ""))
    yield earned


def _name(team: str) -> str:
    """Return a team's name as that of a folder."""
    kept = "".join(c if c.isalnum() or c in "._- " else "_" for c in team)
    return kept.strip(". ") or "team"


def _folder(
    store: Store,
    folder: ServerFolder,
    milestone: Milestone,
    one: Submission,
    into: Path,
) -> None:
    sent = upload_path(folder.uploads, one.team, one.sha256)
    into.mkdir()
    archive.unpack(sent, into / SENT, submitted.caps(milestone), called="it")
    if one.measured is not None:
        (into / MEASUREMENT_FILE).write_bytes(to_json(one.measured))
    if not one.runs:
        return
    paths = folder.home_of_runs().run(one.runs[-1].run)
    with suppress(FileNotFoundError):
        (into / OUTPUT).write_bytes(files.read(paths.stdout, MOST_OUTPUT))
