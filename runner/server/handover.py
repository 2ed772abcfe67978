"""Runs that go from the queue to the job host, and how the store learns of their ends.

All that counts is in the store. What is remembered here is for patience only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from runner.core import State
from runner.core.ending import Reason
from runner.core.errors import RaiError
from runner.database.base import RunRow
from runner.database.store import Store
from runner.jobhost.base import JobHost
from runner.scheduling.history import QueueHistory
from runner.scheduling.turns import lane
from runner.server.starts import Handed, Starts
from runner.server.steplog import StepLog
from runner.wire.host import HostRun
from runner.wire.remote_runs import QueueState

AGAIN_S = 10.0
"""A start that could not be made, or was not answered, is tried again after this."""

CANCEL_AGAIN_S = 5.0
CLAIMED_WITHIN_S = 90.0
"""A run that the host took, and no worker in this time, is started again."""

UNKNOWN_WITHIN_S = 15.0
"""A run that goes on and that the host does not know for so long is lost."""

MOST_ATTEMPTS = 3
MOST_KEPT_BYTES = 1 << 50
"""More than any disk has: a host that says more is wrong, and the store goes on."""


class Handover:
    """What brings the rows of active runs to where their runs are."""

    def __init__(
        self,
        store: Store,
        host: JobHost,
        starts: Starts,
        history: QueueHistory,
        log: StepLog,
    ) -> None:
        self._store, self._host, self._starts = store, host, starts
        self._history, self._log = history, log
        self._first: set[str] = set()
        self._since: dict[str, float] = {}
        self._cancelled_at: dict[str, float] = {}
        self._not_before: dict[str, float] = {}
        self._waiting: set[str] = set()  # at their place, when they were seen last

    def start(self, row: RunRow, now: float) -> None:
        """Claim a run that waits, and hand it over."""
        if now < self._not_before.get(row.id, now):
            return
        if not self._store.claim(row.id, row.attempt):
            return
        self._history.note_start(row.team, lane(row), now)
        self._log("run_start", run=row.id, team=row.team, attempt=row.attempt + 1)
        self._first.add(row.id)
        self._begin(row.id)

    def settle(self, now: float) -> None:
        """Note what became of the starts that are over."""
        for one in self._starts.over():
            first = one.id in self._first
            self._first.discard(one.id)
            row = self._store.run(one.id)
            if row is None or row.state is not QueueState.STARTING:
                continue
            match one.handed:
                case Handed.TAKEN:
                    self._since[row.id] = now
                case Handed.REFUSED:
                    reason = one.reason or Reason.INTERNAL
                    if reason is Reason.BAD_CONFIG:  # of this machine, not of the run
                        reason = Reason.INTERNAL
                    self._over(row, reason, one.why, now)
                case Handed.LATER if first:
                    self._back(row, one.why)
                    self._not_before[row.id] = now + AGAIN_S
                case Handed.LATER | Handed.UNKNOWN:
                    # An earlier start of the same run may be under way still.
                    self._not_before[row.id] = now + AGAIN_S
                    self._log("start_unanswered", run=row.id, error=one.why)

    def follow(
        self, active: Iterable[RunRow], seen: Mapping[str, HostRun], now: float
    ) -> None:
        """Bring rows to where their runs are, as the host sees them."""
        for row in active:
            found = seen.get(row.id)
            self._follow(row, found, now)
            if row.cancelled and found is not None and not found.ended:
                self._cancel(row.id, now)

    def forget(self, unfinished: Iterable[RunRow]) -> None:
        """Forget what was remembered of runs that have ended."""
        known = {row.id for row in unfinished}
        self._first &= known
        self._waiting &= known
        for memory in (self._since, self._cancelled_at, self._not_before):
            for gone in memory.keys() - known:
                del memory[gone]

    def forget_times(self) -> None:
        """Forget since and until when anything waits; a start may be repeated."""
        for memory in (self._since, self._cancelled_at, self._not_before):
            memory.clear()

    def _follow(self, row: RunRow, seen: HostRun | None, now: float) -> None:
        if seen is not None and seen.claimed:
            self._since.pop(row.id, None)
            if row.state is QueueState.STARTING:
                self._store.started(row.id, seen.started_at or now)
            if seen.ended or seen.state is State.LOST:
                self._end(row, seen, now)
        elif seen is not None and seen.waits:
            # Its place has it, for however long.
            self._since.pop(row.id, None)
            self._waiting.add(row.id)
        elif row.state is QueueState.RUNNING:
            if self._waited(row, now) >= UNKNOWN_WITHIN_S:
                why = "the job host knows nothing of it any more"
                self._over(row, Reason.RUNNER_LOST, why, now)
        elif self._starts.under_way(row.id):
            return
        elif row.cancelled and row.id in self._waiting:
            # Its place has let go of it before it began.
            self._over(row, Reason.CANCELLED, row.why, now)
        elif row.cancelled:
            # Asking once more would start it; what is not begun by then never is.
            if self._waited(row, now) >= UNKNOWN_WITHIN_S:
                self._over(row, Reason.CANCELLED, row.why, now)
        elif row.id in self._since:
            if self._waited(row, now) >= CLAIMED_WITHIN_S:
                self._not_taken(row, now)
        elif now >= self._not_before.get(row.id, now):
            # The answer was lost, or another process asked. The host starts no run
            # twice, so it can be asked again.
            self._begin(row.id)

    def _waited(self, row: RunRow, now: float) -> float:
        return now - self._since.setdefault(row.id, now)

    def _not_taken(self, row: RunRow, now: float) -> None:
        """Go on with a run that the host took, and that no worker began."""
        why = "no worker of the job host took it"
        if row.attempt >= MOST_ATTEMPTS:
            self._over(row, Reason.INTERNAL, f"{why}, {row.attempt} times", now)
        else:
            self._back(row, why)

    def _begin(self, run_id: str) -> None:
        self._since.pop(run_id, None)
        row = self._store.run(run_id)
        if row is not None and row.state is QueueState.STARTING:
            self._starts.begin(row)

    def _back(self, row: RunRow, why: str) -> None:
        self._store.unclaim(row.id, row.attempt, why)
        self._since.pop(row.id, None)
        self._log("run_waits_again", run=row.id, team=row.team, why=why)

    def _end(self, row: RunRow, seen: HostRun, now: float) -> None:
        lost = seen.state is State.LOST
        reason = seen.reason or (Reason.RUNNER_LOST if lost else Reason.INTERNAL)
        at = now if seen.ended_at is None else seen.ended_at
        began = seen.started_at if row.started_at is None else row.started_at
        if began is not None:
            self._history.note_end(row.team, lane(row), at - began)
        why = row.why if row.cancelled else ""
        self._over(row, reason, why, at, min(max(seen.bytes, 0), MOST_KEPT_BYTES))

    def _over(
        self, row: RunRow, reason: Reason, why: str, at: float, kept_bytes: int = 0
    ) -> None:
        self._store.ended(row.id, at, reason, why, kept_bytes)

    def _cancel(self, run_id: str, now: float) -> None:
        last = self._cancelled_at.get(run_id)
        if last is not None and now - last < CANCEL_AGAIN_S:
            return
        self._cancelled_at[run_id] = now
        try:
            self._host.cancel(run_id)
        except RaiError as error:  # it may have ended meanwhile: the next look tells
            self._log("cancel_failed", run=run_id, error=str(error))
