"""When runs that wait should start: the queue played through with usual durations."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from runner.scheduling.history import QueueHistory
from runner.scheduling.judging import Hold, judged
from runner.scheduling.roles import ServerRules
from runner.scheduling.room import RunRoom
from runner.scheduling.turns import QueuedRun, by_age, lane

PLAYED = 150
"""So many runs are played through; how long later ones wait follows from their pace."""


def estimates(
    order: Sequence[QueuedRun],
    active: Sequence[QueuedRun],
    room: RunRoom,
    rules: ServerRules,
    history: QueueHistory,
    now: float,
) -> dict[str, float]:
    """Return after how many seconds runs should start, where that is known.

    ``order`` are those that wait, ``room`` what is left beside the active ones.
    """
    starts = _played(order[:PLAYED], active, room.copy(), rules, history, now)
    return _extended(order, starts)


def _played(
    order: Sequence[QueuedRun],
    active: Sequence[QueuedRun],
    room: RunRoom,
    rules: ServerRules,
    history: QueueHistory,
    now: float,
) -> dict[str, float]:
    ends: list[tuple[float, str, QueuedRun]] = []
    for run in active:
        usual = history.usual_s(run.team, lane(run))
        began = now if run.started_at is None else run.started_at
        if usual is not None:
            gone = now - began
            ends.append((max(usual - gone, 0.0), run.id, run))
    heapq.heapify(ends)
    waiting, aged = list(order), by_age(order)
    starts: dict[str, float] = {}
    at = 0.0
    while waiting:
        for run, hold in judged(waiting, aged, room, rules, only_starts=True):
            if hold is not Hold.NOTHING:
                continue
            starts[run.id] = at
            usual = history.usual_s(run.team, lane(run))
            if usual is not None:  # else it never ends, and who waits for it is unknown
                heapq.heappush(ends, (at + usual, run.id, run))
        waiting = [run for run in waiting if run.id not in starts]
        aged = [run for run in aged if run.id not in starts]
        if not ends:
            break
        at = ends[0][0]
        while ends and ends[0][0] <= at:
            room.give(heapq.heappop(ends)[2])
    return starts


def _extended(order: Sequence[QueuedRun], starts: dict[str, float]) -> dict[str, float]:
    """Add those behind what was played, at the pace of their lane."""
    if len(order) <= PLAYED:
        return starts
    found = dict(starts)
    number: dict[str, int] = {}
    pace: dict[str, float] = {}
    for place, run in enumerate(order):
        own = lane(run)
        number[own] = number.get(own, 0) + 1
        if place >= PLAYED:
            if own in pace:
                found[run.id] = pace[own] * number[own]
        elif run.id in starts:
            pace[own] = max(pace.get(own, 0.0), starts[run.id] / number[own])
        else:
            pace[own] = math.nan
    return {run_id: at for run_id, at in found.items() if not math.isnan(at)}
