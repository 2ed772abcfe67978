"""A server's runs as one of its teams sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from runner.core.ending import Reason
from runner.scheduling.decision import QueueDecision, WaitStanding
from runner.scheduling.turns import QueuedRun
from runner.wire.remote_runs import QueueState, QueueView, RemoteRun


class ShownRun(QueuedRun, Protocol):
    """What of a run is shown; a QueueRow of the store has it."""

    @property
    def person(self) -> str:
        """Who sent it."""

    @property
    def project(self) -> str:
        """The client's folder."""

    @property
    def why(self) -> str:
        """What it waits for, or why it ended without a record."""

    @property
    def reason(self) -> Reason | None:
        """Why it ended."""

    @property
    def cancelled(self) -> bool:
        """Whether it was asked to end."""


def view(
    row: ShownRun,
    standing: WaitStanding | None,
    asking_team: str,
    *,
    staff: bool = False,
) -> RemoteRun:
    """Return a run as a team sees it; of others' runs it sees when they come and go.

    Staff see all of every run.

    ``standing`` is how it stands in the queue, None where that is not decided yet.
    """
    mine = row.team == asking_team
    seen = mine or staff
    waits = row.state is QueueState.WAITING
    if not waits:
        standing = None
    why = standing.why if standing else row.why
    return RemoteRun(
        id=row.id,
        state=row.state,
        team=row.team,
        queued_at=row.queued_at,
        person=row.person if seen else "",
        project=row.project if seen else "",
        gpus=row.gpus,
        started_at=row.started_at,
        ended_at=row.ended_at,
        ahead=standing.ahead if standing else None,
        estimate_s=standing.estimate_s if standing else None,
        why=why if seen else "",
        reason=row.reason,
        cancelled=row.cancelled,
        mine=mine,
    )


def queue_view(
    unfinished: Sequence[ShownRun],
    decision: QueueDecision[QueuedRun],
    asking_team: str,
    *,
    staff: bool = False,
) -> QueueView:
    """Return the queue as a team sees it; runs that are not placed yet come last."""
    places = {run_id: place for place, run_id in enumerate(decision.standings)}
    last = len(places)
    waiting = [run for run in unfinished if run.state is QueueState.WAITING]
    waiting.sort(key=lambda run: (places.get(run.id, last), run.queued_at, run.id))
    going = [run for run in unfinished if run.state is not QueueState.WAITING]
    room = decision.room
    return QueueView(
        running=tuple(view(run, None, asking_team, staff=staff) for run in going),
        waiting=tuple(
            view(run, decision.standings.get(run.id), asking_team, staff=staff)
            for run in waiting
        ),
        gpus=room.gpus,
        gpus_free=room.gpus_free,
        slots=room.slots,
        slots_free=room.slots_free,
        note=decision.note,
        in_slurm=room.in_slurm,
    )
