"""What feeds a server's queue to its job host, one decision after the other.

All that counts is in the store; what a Feeder remembers serves estimates and patience.
So the server may be killed between any two calls, and the next one goes on: a run that
was handed over is handed over again, and the host starts each run once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from runner.core import Severity, State
from runner.core.ending import Reason
from runner.core.errors import BusyError, RaiError
from runner.core.quantities import size_text
from runner.core.units import MIB
from runner.database.base import RunRow, Store
from runner.jobhost.base import JobHost
from runner.scheduling import words
from runner.scheduling.decision import QueueDecision, decide
from runner.scheduling.history import QueueHistory
from runner.scheduling.roles import DAY_S, ServerRules
from runner.scheduling.turns import lane
from runner.server.starts import Handed, Launch, StartOutcome, Starts, in_thread
from runner.server.steplog import StepLog, silent
from runner.server.upkeep import Upkeep
from runner.wire.host import HostFacts, HostRun
from runner.wire.remote_runs import QueueState

STEP_S = 0.5
LEAST_PAUSE_S = 0.02
MOST_BACKOFF_S = 10.0
CANCEL_AGAIN_S = 5.0
DECIDED_FOR_S = 5.0
"""After this time estimates are made again, although nothing changed."""

CLAIMED_WITHIN_S = 90.0
"""A run that the host took, and no worker in this time, is started again."""

UNKNOWN_WITHIN_S = 15.0
"""A run that goes on and that the host does not know for so long is lost."""

MOST_ATTEMPTS = 3
MOST_TOLD = 20
"""Behind so many runs the store no longer keeps the number: it changes too often."""


class Feeder:
    """The feeder of one server; ``decision`` is how its queue stood last."""

    def __init__(
        self,
        store: Store,
        host: JobHost,
        rules: ServerRules,
        folder: Path,
        log: StepLog = silent,
        launch: Launch = in_thread,
    ) -> None:
        self._store, self._host, self._rules = store, host, rules
        self._log = log
        self._woken = threading.Event()
        self._starts = Starts(host, rules, folder, self.wake, launch)
        self._upkeep = Upkeep(store, host, rules, folder, log)
        self.decision: QueueDecision[RunRow] = QueueDecision(note=words.NO_HOST)
        self.facts: HostFacts | None = None
        self._history: QueueHistory | None = None
        self._rows: tuple[int, list[RunRow]] | None = None
        self._basis: object = None
        self._decided_at = 0.0
        self._away_since: float | None = None
        self._since: dict[str, float] = {}
        self._cancelled_at: dict[str, float] = {}
        self._not_before: dict[str, float] = {}

    def wake(self) -> None:
        """Have the next step follow at once; any thread may call."""
        self._woken.set()

    def run(self, stop: threading.Event) -> None:
        """Take step after step until ``stop`` is set; whatever fails, go on."""
        failed = 0
        while not stop.is_set():
            self._woken.clear()
            try:
                self.step(time.time())
                if self._away_since is None:
                    self._upkeep.when_due(time.time(), self.facts)
                failed = failed + 1 if self._away_since is not None else 0
            except Exception as error:
                failed += 1
                self._log("feeder_failed", error=repr(error), times=failed)
            # What wakes it must not make it turn without a pause.
            stop.wait(STEP_S if failed else LEAST_PAUSE_S)
            if not stop.is_set():
                self._woken.wait(min(STEP_S * 2 ** min(failed, 10), MOST_BACKOFF_S))

    def step(self, now: float) -> None:
        """Look at what goes on, and start what can start."""
        self._settle(self._starts.over(), now)
        rows = self._unfinished()
        active = [row for row in rows if row.state is not QueueState.WAITING]
        if self._history is None:
            self._history = self._remembered(active, now)
        seen = self._looked(active, now)
        if seen is not None:
            for row in active:
                self._follow(row, seen.get(row.id), now)
            rows = self._unfinished()
        self._forget(rows)
        held = {one.id: one.gpus for one in (seen or {}).values()}
        self._decide(rows, held, now)

    def _decide(
        self, rows: list[RunRow], held: Mapping[str, Sequence[str]], now: float
    ) -> None:
        """Start what can start, and say why the others wait."""
        assert self._history is not None
        facts, note = self.facts, self._note(now)
        basis = (self._rows and self._rows[0], facts, held, note)
        if basis == self._basis and now - self._decided_at < DECIDED_FOR_S:
            return
        history = self._history
        found = decide(rows, facts, self._rules, history, now, held, note)
        for row in found.starts:
            self._start(row, now)
        self.decision = found
        self._tell(rows)
        # Those that should have started and did not are decided about again.
        self._basis = None if found.starts else basis
        self._decided_at = now

    def _unfinished(self) -> list[RunRow]:
        """Return the runs that have not ended, read again only where any changed."""
        changes = self._store.changes()
        if self._rows is None or self._rows[0] != changes:
            self._rows = changes, self._store.unfinished()
        return self._rows[1]

    def _remembered(self, active: Sequence[RunRow], now: float) -> QueueHistory:
        history = QueueHistory()
        for row in (*self._store.started_since(now - DAY_S), *active):
            began = now if row.started_at is None else row.started_at
            history.note_start(row.team, lane(row), began)
            if row.ended_at is not None:
                history.note_end(row.team, lane(row), row.ended_at - began)
        return history

    def _looked(
        self, active: Sequence[RunRow], now: float
    ) -> Mapping[str, HostRun] | None:
        """Return what the host knows; None where it cannot be reached."""
        try:
            self.facts = self._host.facts()
            seen = self._host.look([row.id for row in active]) if active else {}
        except BusyError as error:
            if self._away_since is None:
                self._away_since = now
                self._log("host_away", error=str(error))
            return None
        if self._away_since is not None:
            self._log("host_back", after_s=round(now - self._away_since, 1))
            self._away_since = None
        return seen

    def _note(self, now: float) -> str:
        """Return why nothing starts at all, "" if runs start."""
        if why := self._store.drained():
            return words.drained(why)
        if self._away_since is not None:
            return words.out_of_reach(_clock(self._away_since, now))
        facts = self.facts
        if facts is None:
            return words.NO_HOST
        for problem in facts.problems:
            if problem.severity is Severity.ERROR:
                return words.no_service(str(problem))
        least = self._rules.low_disk_bytes
        if facts.disk_free < least:
            free = size_text(facts.disk_free // MIB * MIB)
            return words.low_disk(free, size_text(least))
        return ""

    def _follow(self, row: RunRow, seen: HostRun | None, now: float) -> None:
        """Bring a row to where its run is."""
        if seen is not None and seen.claimed:
            self._since.pop(row.id, None)
            if row.state is QueueState.STARTING:
                self._store.started(row.id, seen.started_at or now)
            if seen.ended or seen.state is State.LOST:
                self._end(row, seen, now)
        elif row.state is QueueState.RUNNING:
            if now - self._since.setdefault(row.id, now) >= UNKNOWN_WITHIN_S:
                self._lose(row, now)
        elif not self._starts.under_way(row.id):
            self._start_again(row, now)
        if row.cancelled and seen is not None and not seen.ended:
            self._cancel(row.id, now)

    def _start_again(self, row: RunRow, now: float) -> None:
        """Go on with a run that was being handed over.

        The answer was lost, or this server is another process than the one that asked;
        the host starts no run twice, so it can be asked again. Only where it said that
        it took the run, and then no worker came, nothing can begin any more.
        """
        if row.cancelled:
            # Asking once more would start it; what is not begun by now never is.
            since = self._since.setdefault(row.id, now)
            if now - since >= UNKNOWN_WITHIN_S:
                self._over(row, Reason.CANCELLED, row.why, now)
            return
        taken = self._since.get(row.id)
        if taken is None:
            if now >= self._not_before.get(row.id, now):
                self._begin(row.id)
        elif now - taken >= CLAIMED_WITHIN_S:
            why = "no worker of the job host took it"
            if row.attempt >= MOST_ATTEMPTS:
                self._over(row, Reason.INTERNAL, f"{why}, {row.attempt} times", now)
            else:
                self._back(row, why)

    def _settle(self, outcomes: Sequence[StartOutcome], now: float) -> None:
        """Note what became of starts."""
        for one in outcomes:
            row = self._store.run(one.id)
            if row is None or row.state is not QueueState.STARTING:
                continue
            match one.handed:
                case Handed.TAKEN:
                    self._since[row.id] = now
                case Handed.REFUSED:
                    self._over(row, one.reason or Reason.INTERNAL, one.why, now)
                case Handed.LATER:
                    self._back(row, one.why)
                    self._not_before[row.id] = now + MOST_BACKOFF_S
                case Handed.UNKNOWN:
                    self._not_before[row.id] = now + MOST_BACKOFF_S
                    self._log("start_unanswered", run=row.id, error=one.why)

    def _start(self, row: RunRow, now: float) -> None:
        if now < self._not_before.get(row.id, now):
            return
        if not self._store.claim(row.id, row.attempt):
            return
        assert self._history is not None
        self._history.note_start(row.team, lane(row), now)
        self._log("run_start", run=row.id, team=row.team, attempt=row.attempt + 1)
        self._begin(row.id)

    def _begin(self, run_id: str) -> None:
        self._since.pop(run_id, None)
        row = self._store.run(run_id)
        if row is not None and row.state is QueueState.STARTING:
            self._starts.begin(row)

    def _back(self, row: RunRow, why: str) -> None:
        self._store.unclaim(row.id, row.attempt, why)
        self._log("run_waits_again", run=row.id, team=row.team, why=why)

    def _end(self, row: RunRow, seen: HostRun, now: float) -> None:
        lost = seen.state is State.LOST
        reason = seen.reason or (Reason.RUNNER_LOST if lost else Reason.INTERNAL)
        at = now if seen.ended_at is None else seen.ended_at
        began = seen.started_at if row.started_at is None else row.started_at
        if began is not None and self._history is not None:
            self._history.note_end(row.team, lane(row), at - began)
        self._over(row, reason, "", at, seen.bytes)

    def _lose(self, row: RunRow, now: float) -> None:
        why = "the job host knows nothing of it any more"
        self._over(row, Reason.RUNNER_LOST, why, now)

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

    def _forget(self, rows: Sequence[RunRow]) -> None:
        """Forget what was remembered of runs that have ended."""
        known = {row.id for row in rows}
        for memory in (self._since, self._cancelled_at, self._not_before):
            for gone in memory.keys() - known:
                del memory[gone]

    def _tell(self, rows: Sequence[RunRow]) -> None:
        """Write why runs wait, where the store has it otherwise."""
        told = {}
        for row in rows:
            if row.state is QueueState.WAITING and (
                standing := self.decision.standings.get(row.id)
            ):
                far = standing.ahead > MOST_TOLD and not self.decision.note
                why = words.FAR_BEHIND if far else standing.why
                if why != row.why:
                    told[row.id] = why
        if told:
            self._store.wait_reason(told)


def _clock(at: float, now: float) -> str:
    """Write a moment as the clock of this machine shows it, with its date if old."""
    form = "%H:%M" if now - at < DAY_S / 2 else "%Y-%m-%d %H:%M"
    return datetime.fromtimestamp(at).strftime(form)
