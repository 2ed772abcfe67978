"""Runs on their way from the queue to a worker, and how the store learns of their ends.

All that counts is in the store and in the folders of runs. What is remembered here is
for patience only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from pathlib import Path

from msgspec import Struct, json
from msgspec.structs import replace

from runner.core import Problem, Reason, State
from runner.core.errors import BusyError, RaiError
from runner.core.order import Order
from runner.core.screen import printable
from runner.database import Store
from runner.scheduling.decision import RunStatus
from runner.scheduling.queue import QueueHistory, QueueRow, ServerRules
from runner.server.folders import ServerRuns
from runner.server.logs import StepLog
from runner.server.paths import upload_path
from runner.server.workers import NotBegunError
from runner.wire.remote_runs import QueueState

AGAIN_S = 10.0
"""A start that could not be made is tried again after this."""

CANCEL_AGAIN_S = 5.0
CLAIMED_WITHIN_S = 90.0
"""A run that was begun, and that no worker claimed in this time, is started again."""

UNKNOWN_WITHIN_S = 15.0
"""A run that goes on and whose folder is gone for so long is lost."""

MOST_ATTEMPTS = 3
MOST_KEPT_BYTES = 1 << 50
"""More than any disk has: whatever a file system says, the store goes on."""

UPLOAD_GONE = Problem(
    "the server no longer has the packed project of this run", hint="send it again"
)

Launch = Callable[[Callable[[], None]], None]


def in_thread(work: Callable[[], None]) -> None:
    """Do some work in a thread that ends with the process, whatever it waits for."""
    threading.Thread(target=work, name="start", daemon=True).start()


class Begun(Enum):
    """What became of a start."""

    TAKEN = auto()
    """A worker has the run, or Slurm."""

    REFUSED = auto()
    """It will never start."""

    LATER = auto()
    """There is no room for it; nothing of it ran."""

    DIED = auto()
    """Its worker ended before it claimed the run; nothing of it ran."""

    UNKNOWN = auto()
    """Something failed: it may have begun."""


class StartOutcome(Struct, frozen=True):
    """What became of the start of a run; the words are for its team."""

    id: str
    begun: Begun
    why: str = ""
    reason: Reason = Reason.INTERNAL


class Handover:
    """What brings the rows of active runs to where their runs are.

    Each start has a thread, since it may take minutes; ``wake`` is called as one is
    over. ``launch`` begins such a thread.
    """

    def __init__(
        self,
        store: Store,
        runs: ServerRuns,
        rules: ServerRules,
        uploads: Path,
        history: QueueHistory,
        log: StepLog,
        wake: Callable[[], None],
        launch: Launch = in_thread,
    ) -> None:
        self._store, self._runs, self._rules = store, runs, rules
        self._uploads, self._history, self._log = uploads, history, log
        self._wake, self._launch = wake, launch
        self._lock = threading.Lock()
        self._under_way: set[str] = set()
        self._over_now: list[StartOutcome] = []
        self._since: dict[str, float] = {}
        self._cancelled_at: dict[str, float] = {}
        self._not_before: dict[str, float] = {}
        self._waiting: set[str] = set()  # in Slurm's queue, when they were seen last

    def start(self, row: QueueRow, now: float) -> None:
        """Claim a run that waits, and begin it."""
        if now < self._not_before.get(row.id, now):
            return
        if not self._store.claim(row.id, row.attempt):
            return
        self._history.note_start(row.team, row.lane, now)
        self._log("run_start", run=row.id, team=row.team, attempt=row.attempt + 1)
        self._begin(row.id)

    def settle(self, now: float) -> None:
        """Note what became of the starts that are over."""
        with self._lock:
            over, self._over_now = self._over_now, []
            self._under_way.difference_update(one.id for one in over)
        for one in over:
            row = self._store.run(one.id)
            if row is None or row.state is not QueueState.STARTING:
                continue
            match one.begun:
                case Begun.TAKEN:
                    self._since[row.id] = now
                case Begun.REFUSED:
                    bad = one.reason is Reason.BAD_CONFIG  # of this machine
                    self._over(
                        row, Reason.INTERNAL if bad else one.reason, one.why, now
                    )
                case Begun.DIED:
                    self._not_taken(row, one.why, now)
                case Begun.LATER:
                    self._back(row, one.why)
                    self._not_before[row.id] = now + AGAIN_S
                case Begun.UNKNOWN:
                    self._not_before[row.id] = now + AGAIN_S
                    self._log("start_failed", run=row.id, error=one.why)

    def follow(
        self, active: Iterable[QueueRow], seen: Mapping[str, RunStatus], now: float
    ) -> None:
        """Bring rows to where their runs are, as their folders tell."""
        for row in active:
            found = seen.get(row.id)
            self._follow(row, found, now)
            if row.cancelled and found is not None and not found.ended:
                self._cancel(row.id, now)

    def forget(self, unfinished: Iterable[QueueRow]) -> None:
        """Forget what was remembered of runs that have ended."""
        known = {row.id for row in unfinished}
        self._waiting &= known
        for memory in (self._since, self._cancelled_at, self._not_before):
            for gone in memory.keys() - known:
                del memory[gone]

    def forget_times(self) -> None:
        """Forget since and until when anything waits; a start may be repeated."""
        for memory in (self._since, self._cancelled_at, self._not_before):
            memory.clear()

    def _follow(self, row: QueueRow, seen: RunStatus | None, now: float) -> None:
        if seen is not None and seen.claimed:
            self._since.pop(row.id, None)
            if row.state is QueueState.STARTING:
                self._store.started(row.id, seen.started_at or now)
            if seen.ended or seen.state is State.LOST:
                self._end(row, seen, now)
        elif seen is not None and seen.waits:
            # Slurm has it, for however long.
            self._since.pop(row.id, None)
            self._waiting.add(row.id)
        elif row.state is QueueState.RUNNING:
            if self._waited(row, now) >= UNKNOWN_WITHIN_S:
                why = "the folder of this run is gone"
                self._over(row, Reason.RUNNER_LOST, why, now)
        elif row.id in self._under_way:
            return
        elif row.cancelled and row.id in self._waiting:
            # Slurm has let go of it before it began.
            self._over(row, Reason.CANCELLED, row.why, now)
        elif row.cancelled:
            # Asking once more would start it; what is not begun by then never is.
            if self._waited(row, now) >= UNKNOWN_WITHIN_S:
                self._over(row, Reason.CANCELLED, row.why, now)
        elif row.id in self._since:
            if self._waited(row, now) >= CLAIMED_WITHIN_S:
                self._not_taken(row, "no worker began it", now)
        elif now >= self._not_before.get(row.id, now):
            # A server that was killed had it begun, or was about to. No run is begun
            # twice, so it can be asked for again.
            self._begin(row.id)

    def _waited(self, row: QueueRow, now: float) -> float:
        return now - self._since.setdefault(row.id, now)

    def _not_taken(self, row: QueueRow, why: str, now: float) -> None:
        """Go on with a run that no worker claimed."""
        if row.attempt >= MOST_ATTEMPTS:
            self._over(row, Reason.RUNNER_LOST, f"{why}, {row.attempt} times", now)
        else:
            self._back(row, why)

    def _begin(self, run_id: str) -> None:
        self._since.pop(run_id, None)
        row = self._store.run(run_id)
        if row is not None and row.state is QueueState.STARTING:
            with self._lock:
                self._under_way.add(row.id)
            self._launch(lambda: self._handle(row))

    def _handle(self, row: QueueRow) -> None:
        outcome = StartOutcome(row.id, Begun.UNKNOWN, "the server stopped")
        try:
            outcome = self._outcome(row)
        except Exception as error:  # whatever it is, it may have begun
            outcome = StartOutcome(row.id, Begun.UNKNOWN, repr(error))
        finally:
            with self._lock:
                self._over_now.append(outcome)
            self._wake()

    def _outcome(self, row: QueueRow) -> StartOutcome:
        source = upload_path(self._uploads, row.team, row.sha256)
        if not source.is_file():
            return StartOutcome(row.id, Begun.REFUSED, str(UPLOAD_GONE))
        role, whose = self._rules.role(row.role), f"rai:{row.team}/{row.person}"
        slurm = {**role.slurm, "comment": printable(whose)}
        order = self._order(row)
        try:
            answer = self._runs.start(row.id, order, row.parcel, source, slurm)
        except NotBegunError as error:
            return StartOutcome(row.id, Begun.DIED, str(error))
        except BusyError as error:
            return StartOutcome(row.id, Begun.LATER, str(error))
        except RaiError as error:
            return StartOutcome(
                row.id, Begun.REFUSED, _words(error.problems), error.reason
            )
        if answer.reason is None:
            return StartOutcome(row.id, Begun.TAKEN)
        begun = Begun.LATER if answer.reason is Reason.BUSY else Begun.REFUSED
        return StartOutcome(row.id, begun, _words(answer.problems), answer.reason)

    def _order(self, row: QueueRow) -> Order:
        kept = json.decode(row.secrets or "{}", type=Order)
        settings = {"RAI_ENGINE": row.engine} if row.engine else {}
        allowed = self._rules.role(row.role).policy
        return replace(kept, settings=settings, allowed=allowed)

    def _back(self, row: QueueRow, why: str) -> None:
        self._store.unclaim(row.id, row.attempt, why)
        self._since.pop(row.id, None)
        self._log("run_waits_again", run=row.id, team=row.team, why=why)

    def _end(self, row: QueueRow, seen: RunStatus, now: float) -> None:
        lost = seen.state is State.LOST
        reason = seen.reason or (Reason.RUNNER_LOST if lost else Reason.INTERNAL)
        at = now if seen.ended_at is None else seen.ended_at
        began = seen.started_at if row.started_at is None else row.started_at
        if began is not None:
            self._history.note_end(row.team, row.lane, at - began)
        why = row.why if row.cancelled else ""
        self._over(row, reason, why, at, min(max(seen.bytes, 0), MOST_KEPT_BYTES))

    def _over(
        self, row: QueueRow, reason: Reason, why: str, at: float, kept_bytes: int = 0
    ) -> None:
        self._store.ended(row.id, at, reason, why, kept_bytes)

    def _cancel(self, run_id: str, now: float) -> None:
        last = self._cancelled_at.get(run_id)
        if last is not None and now - last < CANCEL_AGAIN_S:
            return
        self._cancelled_at[run_id] = now
        try:
            self._runs.cancel(run_id)
        except RaiError as error:  # it may have ended meanwhile: the next look tells
            self._log("cancel_failed", run=run_id, error=str(error))


def _words(problems: tuple[Problem, ...]) -> str:
    return "\n".join(str(problem) for problem in problems)
