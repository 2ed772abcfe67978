"""One decision about a queue: what starts now, how the others stand, who sees what."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum, auto

from msgspec import Struct, convert, field
from msgspec.structs import asdict, replace

from runner.core import Reason, State
from runner.core.quantities import DAY_S
from runner.core.wire import Capacity, QueueState, QueueView, RemoteRun
from runner.server.scheduling import (
    LANES,
    GpuDay,
    QueueHistory,
    QueueRow,
    Role,
    RunRoom,
    ServerRules,
    by_age,
    in_turn,
    room_of,
)

NOT_LOOKED = "the server has not looked at its engines and GPUs yet"

PLAYED = 150
"""So many runs are played through; how long later ones wait follows from their pace."""


class RunStatus(Struct, frozen=True):
    """What a run's folder tells of it.

    ``claimed`` is False where no worker took it, and then nothing of it has run.
    ``ended`` is True once its record is written. ``gpus`` are the UUIDs that it holds
    or held. ``bytes`` is what its folder takes, once it has ended. ``waits`` says why a
    run has not begun that a cluster has in its queue.
    """

    id: str
    claimed: bool = False
    ended: bool = False
    state: State | None = None
    reason: Reason | None = None
    started_at: float | None = None
    ended_at: float | None = None
    gpus: tuple[str, ...] = ()
    bytes: int = 0
    waits: str = ""


class WaitStanding(Struct, frozen=True, gc=False):
    """How a run stands that waits; the words are those of RemoteRun."""

    ahead: int
    why: str
    estimate_s: float | None = None


class QueueDecision(Struct, frozen=True):
    """What starts now, in this order, and how those stand that wait on.

    ``standings`` are in the order of the starts to come. ``note`` says why nothing
    starts at all, if so. ``room`` is what is left beside the runs that start.
    """

    starts: tuple[QueueRow, ...] = ()
    standings: Mapping[str, WaitStanding] = {}
    room: RunRoom = field(default_factory=RunRoom)
    note: str = ""


def decide(
    unfinished: Sequence[QueueRow],
    facts: Capacity | None,
    rules: ServerRules,
    history: QueueHistory,
    now: float,
    seen: Mapping[str, RunStatus] = {},
    note: str = "",
    gpu_use: Mapping[str, GpuDay] = {},
    *,
    submissions: bool = False,
) -> QueueDecision:
    """Return what of a queue starts now.

    ``seen`` is what the folders of active runs tell, ``gpu_use`` is by team. Nothing
    starts where there is a ``note``, which says why, or no facts; or only runs of
    ``submissions``.
    """
    aged = by_age(run for run in unfinished if run.state is QueueState.WAITING)
    active = [run for run in unfinished if run.state is not QueueState.WAITING]
    order = in_turn(aged, history)
    if facts is None:
        facts, note = Capacity("", ()), note or NOT_LOOKED
    held = {run_id: one.gpus for run_id, one in seen.items()}
    room = room_of(facts, rules, active, held, gpu_use)
    waiting: dict[str, WaitStanding] = {}
    if note:
        still = [run for run in order if not (submissions and run.unbound)]
        waiting = {run.id: WaitStanding(n, note) for n, run in enumerate(still)}
        order, aged = (
            [run for run in some if run.id not in waiting] for some in (order, aged)
        )
    judged = list(_judged(order, aged, room, rules))
    starts = tuple(run for run, why in judged if why is None)
    waits = [(run, why) for run, why in judged if why is not None]
    behind = [run for run, _ in waits]
    usual = _estimates(behind, [*active, *starts], room, rules, history, now)
    standings = _standings(waits, room, rules, facts, usual)
    return QueueDecision(starts, {**standings, **waiting}, room, note)


class _WaitReason(Enum):
    """Why a run does not start now."""

    TEAM = auto()
    """Its team has as many runs going as it may, or will with those before it; or had
    GPUs as long as it may."""

    NEVER = auto()
    """It needs more than there is in order."""

    BEHIND = auto()
    """Runs of its lane come before it."""

    ROOM = auto()
    """It is the next of its lane, and there is no room."""


def _judged(
    order: Sequence[QueueRow],
    aged: Sequence[QueueRow],
    room: RunRoom,
    rules: ServerRules,
    *,
    only_starts: bool = False,
) -> Iterator[tuple[QueueRow, _WaitReason | None]]:
    """Yield each run in its order, and why it waits; take the room of what starts.

    ``aged`` are the same runs by age. With ``only_starts`` the rest is left out once
    nothing more can start.
    """
    allowed = _allowed(aged, room, rules)
    closed: set[str] = set()
    for run in order:
        why = None
        if room.never(run):
            why = _WaitReason.NEVER
        elif run.id not in allowed:
            why = _WaitReason.TEAM
        elif run.lane in closed:
            why = _WaitReason.BEHIND
        elif room.fits(run):
            room.take(run)
        else:
            closed.add(run.lane)
            why = _WaitReason.ROOM
        yield run, why
        if only_starts and len(closed) == len(LANES):
            return


def _allowed(aged: Sequence[QueueRow], room: RunRoom, rules: ServerRules) -> set[str]:
    """Return the ids of the runs that are not held by their team's bounds.

    A team may have so many runs at once: its oldest ones have the first right to that,
    so that none waits for ever behind its own team's later ones.
    """
    going = room.teams.copy()
    found = set()
    for run in aged:
        role = rules.role(run.role)
        full = role.at_once is not None and going[run.team] >= role.at_once
        full = full and not run.unbound
        if not (full or room.never(run) or room.spent(run, role)):
            going[run.team] += 1
            found.add(run.id)
    return found


def _estimates(
    order: Sequence[QueueRow],
    active: Sequence[QueueRow],
    room: RunRoom,
    rules: ServerRules,
    history: QueueHistory,
    now: float,
) -> dict[str, float]:
    """Return after how many seconds runs should start, where that is known.

    ``order`` are those that wait, ``room`` what is left beside the active ones. The
    first of the queue are played through with usual durations; those behind them start
    at the pace of their lane.
    """
    starts = _played(order[:PLAYED], active, room, rules, history, now)
    number: Counter[str] = Counter()
    pace: dict[str, float] = {}
    for place, run in enumerate(order):
        lane = run.lane
        number[lane] += 1
        if place < PLAYED:
            at = starts.get(run.id, math.inf)
            pace[lane] = max(pace.get(lane, 0.0), at / number[lane])
        elif pace.get(lane, math.inf) < math.inf:
            starts[run.id] = pace[lane] * number[lane]
    return starts


def _played(
    order: Sequence[QueueRow],
    active: Sequence[QueueRow],
    room: RunRoom,
    rules: ServerRules,
    history: QueueHistory,
    now: float,
) -> dict[str, float]:
    room = replace(room, teams=room.teams.copy())
    ends: list[tuple[float, str, QueueRow]] = []
    for run in active:
        usual = history.usual_s(run.team, run.lane)
        if usual is not None:  # else it never ends, and who waits for it is unknown
            gone = 0.0 if run.started_at is None else now - run.started_at
            ends.append((max(usual - gone, 0.0), run.id, run))
    heapq.heapify(ends)
    waiting, aged = list(order), by_age(order)
    starts: dict[str, float] = {}
    at = 0.0
    while waiting:
        for run, why in _judged(waiting, aged, room, rules, only_starts=True):
            if why is None:
                starts[run.id] = at
                usual = history.usual_s(run.team, run.lane)
                if usual is not None:
                    heapq.heappush(ends, (at + usual, run.id, run))
        waiting, aged = (
            [run for run in some if run.id not in starts] for some in (waiting, aged)
        )
        if not ends:
            break
        at = ends[0][0]
        while ends and ends[0][0] <= at:
            room.take(heapq.heappop(ends)[2], -1)
    return starts


def _standings(
    waits: Sequence[tuple[QueueRow, _WaitReason]],
    room: RunRoom,
    rules: ServerRules,
    facts: Capacity,
    usual: Mapping[str, float],
) -> dict[str, WaitStanding]:
    standings = {}
    out = "; ".join(
        f"GPU {number} is out of order: {gpu.out}"
        for number, gpu in enumerate(facts.gpus)
        if gpu.out
    )
    queued: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    for run, reason in waits:
        lane = run.lane
        ahead = queued[lane]
        # A run that others may overtake is not ahead of them, only of its like.
        if reason in (_WaitReason.TEAM, _WaitReason.NEVER):
            passed[lane] += 1
        else:
            ahead -= passed[lane]
        queued[lane] += 1
        role, there = rules.role(run.role), len(facts.gpus)
        why = _why(run, reason, ahead, room, role, there, out if run.gpus else "")
        standings[run.id] = WaitStanding(ahead, why, usual.get(run.id))
    return standings


def _why(
    run: QueueRow,
    reason: _WaitReason,
    ahead: int,
    room: RunRoom,
    role: Role,
    there: int,
    out: str,
) -> str:
    """Return why a run waits, to be read by its team.

    ``there`` is how many GPUs there are, and ``out`` says which are out of order.
    """
    match reason:
        case _WaitReason.TEAM if room.spent(run, role):
            most_s = role.gpu_a_day_s or 0
            more = datetime.fromtimestamp(room.gpu_use[run.team].since + DAY_S)
            return (
                f"your team had GPUs for the {most_s / 60:g} min that it may in"
                f" 24 hours; more from {more:%b %d %H:%M}"
            )
        case _WaitReason.TEAM:
            going, most = room.teams[run.team], role.at_once or 0
            if going >= most:
                return f"your team has {_runs(going)} going, as many as it may"
            return (
                f"your team may have {_runs(most)} going, and earlier ones come first"
            )
        case _WaitReason.NEVER if out:
            return out
        case _WaitReason.NEVER if not there:
            return "it needs a GPU, and this server has none"
        case _WaitReason.NEVER:
            return f"it needs {run.gpus} GPUs, and this server has {there}"
        case _WaitReason.BEHIND:
            text = f"{_runs(ahead)} before it"
        case _WaitReason.ROOM if room.in_slurm:
            most, kind = (room.gpus, "with") if run.gpus else (room.slots, "without")
            text = f"{_runs(most)} {kind} a GPU may be in Slurm's queue at a time"
        case _WaitReason.ROOM if not run.gpus:
            text = f"no slot is free: {room.slots - room.slots_free} in use"
        case _WaitReason.ROOM:
            free, used = room.gpus_free, room.gpus - room.gpus_free
            text = f"no GPU is free: {used} in use"
            if free and run.gpus > 1:
                text = f"it needs {run.gpus} GPUs: {free} free, {used} in use"
    return f"{text}; {out}" if out else text


def _runs(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"


def view(
    row: QueueRow,
    standing: WaitStanding | None,
    asking_team: str,
    *,
    staff: bool = False,
) -> RemoteRun:
    """Return a run as a team sees it; of others' runs it sees when they come and go.

    Staff see all of every run. ``standing`` is how it stands in the queue, None where
    that is not decided yet.
    """
    shown = convert(row, RemoteRun, from_attributes=True)
    mine = row.team == asking_team
    if standing and row.state is QueueState.WAITING:
        shown = replace(shown, **asdict(standing))
    if not mine and not staff:
        shown = replace(shown, person="", project="", why="")
    return replace(shown, mine=mine)


def queue_view(
    unfinished: Sequence[QueueRow],
    decision: QueueDecision,
    asking_team: str,
    *,
    staff: bool = False,
) -> QueueView:
    """Return the queue as a team sees it; runs that are not placed yet come last."""
    standings, room = decision.standings, decision.room
    places = {run_id: place for place, run_id in enumerate(standings)}
    last = len(places)
    running: list[RemoteRun] = []
    waiting: list[RemoteRun] = []
    for run in unfinished:
        shown = view(run, standings.get(run.id), asking_team, staff=staff)
        (waiting if run.state is QueueState.WAITING else running).append(shown)
    waiting.sort(key=lambda run: (places.get(run.id, last), run.queued_at, run.id))
    return QueueView(
        running=tuple(running),
        waiting=tuple(waiting),
        gpus=room.gpus,
        gpus_free=room.gpus_free,
        slots=room.slots,
        slots_free=room.slots_free,
        note=decision.note,
        in_slurm=room.in_slurm,
    )
