"""What the pages of a server show, as data: tables, the picture of times, output."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import BinaryIO

from msgspec import Struct

from runner.client import problems
from runner.core import Reason
from runner.core.quantities import brief, duration_text
from runner.core.screen import TerminalFilter, uncoloured
from runner.core.wire import (
    EVENTS,
    FILES,
    MOST_TAIL_BYTES,
    Decision,
    Leaderboard,
    QueueState,
    QueueView,
    RemoteRun,
    Submission,
)
from runner.report.findings import timed
from runner.report.phrases import late_text, words
from runner.server.database import Store
from runner.server.database.accounts import Identity
from runner.server.decision import QueueDecision, queue_view
from runner.server.downloads import output_of
from runner.server.folders import ServerRuns
from runner.server.grading import Grading
from runner.server.runs import shortened
from runner.server.scheduling import STAFF, QueueRow
from runner.submit import standings
from runner.submit.outcome import verdict

OUTPUT_BYTES = 64 << 10
"""Of a run's output, but for one larger piece, and of events, in one answer."""

CUT_BYTES = 64
"""A longer sequence for terminals that is cut between two answers is shown in part."""

WIDTH, MARGIN, ROW, DOT = 1000.0, 40.0, 13.0, 5.0
"""Of the picture of times, in its own units: the whole, and the dots in it."""


class Dot(Struct, frozen=True):
    """A team's place in the picture of times."""

    x: float
    y: float
    own: bool
    text: str


class BoardView(Struct, frozen=True):
    """A leaderboard: its title, the cells of its rows, and the picture of its times.

    ``ticks`` are places on the axis, with their times.
    """

    title: str
    rows: tuple[tuple[bool, tuple[str, ...]], ...]
    dots: tuple[Dot, ...]
    ticks: tuple[tuple[float, str], ...]
    height: float


class GridCell(Struct, frozen=True):
    """What a team has of a milestone: the submission to look at, and a word or two."""

    number: int = 0
    text: str = ""
    kind: str = "none"
    late: str = ""


class StaffGrid(Struct, frozen=True):
    """Teams by milestones."""

    names: tuple[str, ...]
    rows: tuple[tuple[str, tuple[GridCell, ...]], ...]


class OutputPart(Struct, frozen=True):
    """A part of a run's output; ``after`` asks for the next one.

    ``over`` tells that nothing more comes, ``cut`` that there is more before it.
    """

    text: str
    after: int
    over: bool
    cut: bool = False


def queue(
    rows: Sequence[QueueRow], decision: QueueDecision, who: Identity, now: float
) -> tuple[QueueView, str]:
    """Return the queue as a team sees it, and its state in a sentence."""
    found = shortened(queue_view(rows, decision, who.team, staff=who.staff))
    free, of = found.slots_free, found.slots
    text = f"{of - free} of {of} places are taken"
    if found.gpus:
        used = found.gpus - found.gpus_free
        text = f"{used} of {found.gpus} GPUs are in use"
    waiting = len(found.waiting) + found.left_out
    text = f"{text}; {problems.runs(waiting)} wait{'s' if waiting == 1 else ''}"
    return found, f"{text}. {found.note[:1].upper()}{found.note[1:]}".strip()


def board(found: Leaderboard) -> BoardView:
    """Return a leaderboard as a page shows it."""
    rows = []
    for one in found.standings:
        notes = (
            f"{late_text(one.late_s)} late" if one.late_s else "",
            f"measured again {one.reruns}×" if one.reruns else "",
        )
        day = f"{datetime.fromtimestamp(one.received_at).astimezone():%Y-%m-%d}"
        cells = timed(one.ms, one.ratio, one.interval)
        row = str(one.rank), one.name, *cells, day, " ".join(filter(None, notes))
        rows.append((one.own, row))
    times = [(one.ms, one.own, one.name) for one in found.standings if one.ms]
    dots, ticks, height = _plot(times)
    title = ", ".join(filter(None, (found.accuracy, found.gpu, found.engine)))
    return BoardView(title, tuple(rows), dots, ticks, height)


def _plot(
    times: Sequence[tuple[float, bool, str]],
) -> tuple[tuple[Dot, ...], tuple[tuple[float, str], ...], float]:
    """Place times on a logarithmic axis, those that are alike above each other."""
    if not times:
        return (), (), 0.0
    low, high = min(t for t, _, _ in times), max(t for t, _, _ in times)
    low, high = low / 1.05, high * 1.05
    span = math.log(high / low)

    def place(ms: float) -> float:
        return round(MARGIN + (WIDTH - 2 * MARGIN) * math.log(ms / low) / span, 1)

    columns: Counter[int] = Counter()
    placed = []
    for ms, own, name in sorted(times):
        column = int(place(ms) // (2 * DOT + 2))
        placed.append((place(ms), columns[column], own, f"{name}: {brief(ms / 1000)}"))
        columns[column] += 1
    height = ROW * max(columns.values()) + 30
    dots = tuple(
        Dot(x, round(height - 24 - ROW * level, 1), own, text)
        for x, level, own, text in placed
    )
    marks = [low * (high / low) ** (n / 4) for n in range(5)]
    return dots, tuple((place(ms), brief(ms / 1000)) for ms in marks), height


def grid(store: Store, grading: Grading, names: Sequence[str]) -> StaffGrid:
    """Return what each team has of each milestone."""
    people = [one for one in store.people() if one.role != STAFF.name]
    teams = sorted({one.team for one in people})
    columns = []
    for name in names:
        latest: dict[str, Submission] = {}
        for one in store.submissions(None, name, term=grading.term):
            if not one.rehearsal and one.rerun_of is None:
                latest.setdefault(one.team, one)
        milestone = grading.readable(name)
        counting = grading.counting(milestone) if milestone else []
        counted = {one.team: one for one in counting}
        columns.append({team: _cell(counted, latest, team) for team in teams})
    rows = tuple((team, tuple(column[team] for column in columns)) for team in teams)
    return StaffGrid(tuple(names), rows)


def _cell(
    counted: Mapping[str, Submission], latest: Mapping[str, Submission], team: str
) -> GridCell:
    one = counted.get(team) or latest.get(team)
    if one is None:
        return GridCell()
    late = late_text(one.late_s)
    if team in counted:
        best = standings.best(one)
        time = (best and brief((best.ms or 0.0) / 1000)) or verdict(one)
        return GridCell(one.number, time, "good", late)
    kind = "bad" if one.ended_at is not None else "going"
    return GridCell(one.number, verdict(one), kind, late)


def output(runs: ServerRuns, row: QueueRow, after: int | None) -> OutputPart:
    """Return a run's output in the order of its events, from a place in these on.

    Without a place it is the end of the output.
    """
    ended = row.state is QueueState.ENDED
    opened: dict[str, BinaryIO] = {}
    try:
        for name in FILES:
            if file := runs.open(row.id, name):
                opened[name] = file
        if EVENTS not in opened:
            return OutputPart("", 0, ended)
        size = os.fstat(opened[EVENTS].fileno()).st_size
        at = max(size - OUTPUT_BYTES, 0) if after is None else min(after, size)
        cut = after is None and at > 0
        lines = os.pread(opened[EVENTS].fileno(), OUTPUT_BYTES, at)
        if cut:
            first = lines.find(b"\n") + 1
            lines, at = lines[first:], at + first
        if after is None:
            skipped = _before_the_end(lines)
            lines, at, cut = lines[skipped:], at + skipped, cut or skipped > 0
        text, used = _text(lines, opened, _just_before(at, opened))
    finally:
        for file in opened.values():
            file.close()
    if not used and len(lines) == OUTPUT_BYTES:
        used = len(lines)  # a line so long is of no output
    over = ended and at + used >= size
    return OutputPart(text, at + used, over, cut)


def _before_the_end(lines: bytes) -> int:
    """Return how many bytes of events are before those of the last of the output."""
    output, at = 0, len(lines)
    for line in reversed(lines.splitlines(keepends=True)):
        _, begin, end = output_of(line)
        output += end - begin
        if output > OUTPUT_BYTES and output > end - begin:
            break
        at -= len(line)
    return at


def _just_before(at: int, opened: Mapping[str, BinaryIO]) -> bytes:
    """Return the last bytes of output before a place in the events.

    What comes there may go on with a character or a sequence that begins in these.
    """
    size = min(at, 1 << 10)
    lines = os.pread(opened[EVENTS].fileno(), size, at - size).splitlines()
    log, begin, end = output_of(lines[-1]) if lines else ("", 0, 0)
    begin = max(begin, end - CUT_BYTES)
    return os.pread(opened[log].fileno(), end - begin, begin) if log in opened else b""


def _text(
    lines: bytes, opened: Mapping[str, BinaryIO], before: bytes
) -> tuple[str, int]:
    """Return the output that whole lines of events speak of, and how many bytes."""
    data, used = b"", 0
    for line in lines[: lines.rfind(b"\n") + 1].splitlines(keepends=True):
        log, begin, end = output_of(line)
        if log in opened and end > begin:
            if data and len(data) + end - begin > OUTPUT_BYTES:
                break
            size = min(end - begin, MOST_TAIL_BYTES)
            data += os.pread(opened[log].fileno(), size, begin)
        used += len(line)
    terminal = TerminalFilter()
    terminal.feed(before)
    shown = uncoloured(terminal.feed(data).decode(errors="replace"))
    rows = shown.replace("\r\n", "\n").replace("\b", "").split("\n")
    return "\n".join(row.rpartition("\r")[2] for row in rows), used


def _when(at: float | None) -> str:
    return f"{datetime.fromtimestamp(at).astimezone():%a %b %d %H:%M}" if at else ""


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def _left(due: float | None, now: float) -> str:
    """Write how long it is to a deadline: ``2 days 3 h``, ``14 min``, ``over``."""
    if due is None:
        return ""
    minutes = math.floor((due - now) / 60)
    if minutes < 0:
        return "over"
    days, rest = divmod(minutes, 24 * 60)
    hours, minutes = divmod(rest, 60)
    if days:
        return f"{days} day{'s'[: days != 1]} {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _state(run: RemoteRun, now: float) -> str:
    """Write how a run stands, or ended."""
    if run.state is not QueueState.ENDED:
        return problems.standing(run, now)
    why = f": {run.why}" if run.why else ""
    return f"{words(run.reason)}{why}" if run.reason else f"ended{why}"


def _kind(one: RemoteRun | Submission) -> str:
    """Return whether an outcome is good, bad, or still to come."""
    if isinstance(one, Submission) and one.decided is Decision.ANNUL:
        return "bad"
    if one.reason is None:
        return "going"
    return "good" if one.reason is Reason.DONE else "bad"


def _next(one: RemoteRun | Submission) -> str:
    """Write what to do after an end; "" where there is nothing."""
    return "" if one.reason in (None, Reason.DONE) else one.reason.advice


def _took(run: RemoteRun) -> str:
    if run.started_at is None or run.ended_at is None:
        return ""
    return duration_text(float(round(run.ended_at - run.started_at)))


FILTERS = {
    "when": _when,
    "iso": _iso,
    "left": _left,
    "late": late_text,
    "state": _state,
    "kind": _kind,
    "next": _next,
    "took": _took,
    "verdict": verdict,
    "timed": lambda one: timed(one.ms, one.ratio, one.interval),
}
