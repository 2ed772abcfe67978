"""What begins the runs of a server's queue, one decision after the other.

What a Feeder remembers serves estimates and patience: the server may be killed between
any two calls, and the next one goes on from the store and the folders of the runs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from runner.core import Severity
from runner.core.quantities import size_text
from runner.core.units import DAY_S, MIB
from runner.database import Store
from runner.scheduling.decision import NOT_LOOKED, QueueDecision, RunStatus, decide
from runner.scheduling.queue import QueueHistory, QueueRow, ServerRules
from runner.server.folders import ServerRuns
from runner.server.logs import StepLog, silent
from runner.server.starts import Handover, Launch, in_thread
from runner.server.upkeep import Upkeep
from runner.wire.capacity import Capacity
from runner.wire.remote_runs import QueueState

STEP_S = 0.5
MOST_BACKOFF_S = 10.0
LEAST_PAUSE_S = 0.02
SHARE = 3
"""A step that takes long is followed by a pause of so many times its length.

The end of a worker cuts it short: there are no more of these than of starts.
"""

IDLE_LOOK_S = 5.0
"""So often it is asked what can run while there is no run."""

DECIDED_FOR_S = 5.0
"""After this time estimates are made again, although nothing changed."""

MOST_WHY = 500
"""So much of Slurm's words is kept, in characters."""

MOST_TOLD = 20
FAR_BEHIND = "many runs before it"
"""Behind so many runs the store no longer keeps the number: it changes too often."""


class Feeder:
    """The feeder of one server; ``decision`` is how its queue stood last."""

    def __init__(
        self,
        store: Store,
        runs: ServerRuns,
        rules: ServerRules,
        folder: Path,
        log: StepLog = silent,
        launch: Launch = in_thread,
    ) -> None:
        self.decision: QueueDecision = QueueDecision(note=NOT_LOOKED)
        self.facts: Capacity | None = None
        self._store, self._runs, self._rules, self._log = store, runs, rules, log
        self._woken, self._ended = threading.Event(), threading.Event()
        self._upkeep = Upkeep(store, runs, rules, folder, log)
        self._history = history = QueueHistory()
        self._handover = Handover(
            store, runs, rules, folder, history, log, self.wake, launch
        )
        self._remembers = False
        self._rows: tuple[int, list[QueueRow]] | None = None
        self._looked_at = self._decided_at = self._stepped_at = 0.0
        self._basis: object = None

    def wake(self) -> None:
        """Have the next step follow at once; any thread may call."""
        self._woken.set()

    def hurry(self) -> None:
        """Have the next step follow without a pause: a worker has ended."""
        self._ended.set()
        self._woken.set()

    def run(self, stop: threading.Event) -> None:
        """Take step after step until ``stop`` is set; whatever fails, go on.

        Whoever sets ``stop`` calls ``hurry`` too.
        """
        failed = 0
        self._runs.ended = self.hurry
        while not stop.is_set():
            self._ended.clear()
            self._woken.clear()
            began = time.monotonic()
            try:
                self.step(time.time())
                self._upkeep.when_due(time.time(), self.facts)
                failed = 0
            except Exception as error:
                failed += 1
                self._log("feeder_failed", error=repr(error), times=failed)
            # What wakes it must not make it turn without a pause.
            took = time.monotonic() - began
            least = STEP_S if failed else max(LEAST_PAUSE_S, SHARE * took)
            self._ended.wait(min(least, MOST_BACKOFF_S))
            if not stop.is_set():
                self._woken.wait(min(STEP_S * 2 ** min(failed, 10), MOST_BACKOFF_S))

    def step(self, now: float) -> None:
        """Look at what goes on, and start what can start."""
        if now < self._stepped_at:
            # The clock was set back: what is to wait until a time would wait for long.
            self._handover.forget_times()
            self._looked_at = self._decided_at = 0.0
        self._stepped_at = now
        self._handover.settle(now)
        rows = self._unfinished()
        active = [row for row in rows if row.state is not QueueState.WAITING]
        if not self._remembers:
            self._remember(active, now)
        seen: Mapping[str, RunStatus] = {}
        if rows or now - self._looked_at >= IDLE_LOOK_S:
            self.facts = self._runs.capacity()
            seen = self._runs.look([row.id for row in active]) if active else {}
            self._looked_at = now
        self._handover.follow(active, seen, now)
        rows = self._unfinished()
        self._handover.forget(rows)
        self._decide(rows, seen, now)

    def _unfinished(self) -> list[QueueRow]:
        """Return the runs that have not ended, read again only where any changed."""
        changes = self._store.changes()
        if self._rows is None or self._rows[0] != changes:
            self._rows = changes, self._store.unfinished()
        return self._rows[1]

    def _remember(self, active: Sequence[QueueRow], now: float) -> None:
        for row in (*self._store.started_since(now - DAY_S), *active):
            began = now if row.started_at is None else row.started_at
            self._history.note_start(row.team, row.lane, began)
            if row.ended_at is not None:
                self._history.note_end(row.team, row.lane, row.ended_at - began)
        self._remembers = True

    def _note(self) -> str:
        """Return why nothing starts at all, "" if runs start."""
        if why := self._store.drained():
            return f"the server is drained: {why}"
        facts = self.facts
        if facts is None:
            return NOT_LOOKED
        for problem in facts.problems:
            if problem.severity is Severity.ERROR:
                return f"the server can run nothing: {problem}"
        least = self._rules.low_disk_bytes
        if facts.disk_free < least:
            free = size_text(facts.disk_free // MIB * MIB)
            least_text = size_text(least)
            return f"only {free} of disk are left for runs, which need {least_text}"
        return ""

    def _decide(
        self, rows: list[QueueRow], seen: Mapping[str, RunStatus], now: float
    ) -> None:
        """Start what can start, and say why the others wait."""
        facts, note = self.facts, self._note()
        basis = (self._rows and self._rows[0], facts, seen, note)
        if basis == self._basis and now - self._decided_at < DECIDED_FOR_S:
            return
        history = self._history
        gpus = any(row.gpus for row in rows)
        use = self._store.gpu_use(now - DAY_S, now) if gpus else {}
        found = decide(rows, facts, self._rules, history, now, seen, note, use)
        for row in found.starts:
            self._handover.start(row, now)
        self.decision = found
        self._tell(rows, seen)
        # Those that should have started and did not are decided about again.
        self._basis = None if found.starts else basis
        self._decided_at = now

    def _tell(self, rows: Sequence[QueueRow], seen: Mapping[str, RunStatus]) -> None:
        """Write why runs wait, where the store has it otherwise."""
        whys = {row.id: self._why(row, seen) for row in rows}
        told = {
            row.id: why for row in rows if (why := whys[row.id]) not in ("", row.why)
        }
        if told:
            self._store.wait_reason(told)

    def _why(self, row: QueueRow, seen: Mapping[str, RunStatus]) -> str:
        """Return why a run waits, here or where it shall run; "" for nothing."""
        if row.state is QueueState.STARTING and row.id in seen:
            return seen[row.id].waits[:MOST_WHY]
        standing = self.decision.standings.get(row.id)
        if row.state is not QueueState.WAITING or standing is None:
            return ""
        far = standing.ahead > MOST_TOLD and not self.decision.note
        return FAR_BEHIND if far else standing.why
