"""What begins the runs of a server's queue, and learns of their ends.

All that counts is in the store and in the folders of the runs. What a Feeder remembers
serves estimates and patience: the server may be killed between any two calls, and the
next one goes on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import json
from msgspec.structs import replace

from runner.core import MIB, Problem, Reason, Severity, State
from runner.core.errors import BusyError, RaiError
from runner.core.policy import RolePolicy
from runner.core.quantities import DAY_S, size_text
from runner.core.request import Terms, from_json
from runner.core.screen import printable
from runner.core.wire import Capacity, QueueState
from runner.core.work import Secrets
from runner.server import messages
from runner.server.database import Store
from runner.server.decision import NOT_LOOKED, QueueDecision, RunStatus, decide
from runner.server.folders import ServerRuns
from runner.server.judging import Judging, Launch
from runner.server.paths import upload_path
from runner.server.references import References
from runner.server.scheduling import QueueHistory, QueueRow, ServerRules
from runner.server.upkeep import Upkeep
from runner.server.workers import NotBegunError

STEP_S = 0.5
MOST_BACKOFF_S = 10.0
LEAST_PAUSE_S = 0.02
SHARE = 3
"""A step that takes long is followed by a pause of so many times its length.

The end of a worker cuts it short: there are no more of these than of starts.
"""

IDLE_LOOK_S = 5.0
"""So often it is asked what can run while there is no run, once it is known."""

DECIDED_FOR_S = 5.0
"""After this time estimates are made again, although nothing changed."""

MOST_WHY = 500
"""So much of Slurm's words is kept, in characters."""

MOST_AHEAD = 20
"""Behind so many runs the store no longer keeps the number: it changes too often."""
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

AGAIN = "send it again"
OF_MILESTONES = RolePolicy(source="this server")
"""What the runs of a submission may do: what its milestone says, for every team."""

Settle = Callable[[QueueRow, float], None]
"""What becomes of a row once its start is over, at a time."""


def in_thread(work: Callable[[], None]) -> None:
    """Do some work in a thread that ends with the process, whatever it waits for."""
    threading.Thread(target=work, name="start", daemon=True).start()


class Feeder:
    """The feeder of one server; ``decision`` is how its queue stood last.

    Each start has a thread, since it may take minutes; ``launch`` begins it.
    """

    def __init__(
        self,
        store: Store,
        runs: ServerRuns,
        rules: ServerRules,
        folder: Path,
        launch: Launch = in_thread,
        judging: Judging | None = None,
        references: References | None = None,
    ) -> None:
        self.decision: QueueDecision = QueueDecision(note=NOT_LOOKED)
        self.facts: Capacity | None = None
        self._store, self._runs, self._rules = store, runs, rules
        self._woken, self._ended = threading.Event(), threading.Event()
        self._upkeep = Upkeep(store, runs, rules, folder)
        self._history = QueueHistory()
        self._folder, self._launch = folder, launch
        self._judging, self._references = judging, references
        self._lock = threading.Lock()
        self._under_way: set[str] = set()
        self._over_now: list[tuple[str, Settle]] = []
        self._since: dict[str, float] = {}
        self._cancelled_at: dict[str, float] = {}
        self._not_before: dict[str, float] = {}
        self._waiting: set[str] = set()  # in Slurm's queue, when they were seen last
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
                messages.step("feeder_failed", error=repr(error), times=failed)
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
            for memory in (self._since, self._cancelled_at, self._not_before):
                memory.clear()
            self._looked_at = self._decided_at = 0.0
        self._stepped_at = now
        self._settle(now)
        rows = self._unfinished()
        active = [row for row in rows if row.state is not QueueState.WAITING]
        if not self._remembers:
            self._remember(active, now)
        seen: Mapping[str, RunStatus] = {}
        idle = now - self._looked_at < IDLE_LOOK_S and self.facts is not None
        if rows or not idle:
            self.facts = self._runs.capacity()
            seen = self._runs.look([row.id for row in active]) if active else {}
            self._looked_at = now
        for row in active:
            found = seen.get(row.id)
            self._follow(row, found, now)
            if row.cancelled and found is not None and not found.ended:
                self._cancel(row.id, now)
        rows = self._unfinished()
        going = {row.id for row in rows}
        self._forget(going)
        self._decide(rows, seen, now)
        for each in (self._judging, self._references):
            if each is not None and self.facts is not None:
                each.step(now, self.facts, going, self._launch)

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

    def _note(self) -> tuple[str, bool]:
        """Return why nothing starts at all, "" if runs start; or only submissions."""
        if why := self._store.drained():
            return f"the server is drained: {why}", False
        facts = self.facts
        if facts is None:
            return NOT_LOOKED, False
        for problem in facts.problems:
            if problem.severity is Severity.ERROR:
                return f"the server can run nothing: {problem}", False
        least = self._rules.low_disk_bytes
        if facts.disk_free < least:
            free = size_text(facts.disk_free // MIB * MIB)
            least_text = size_text(least)
            text = f"only {free} of disk are left for runs, which need {least_text}"
            return text, facts.disk_free >= self._rules.least_free(submission=True)
        return "", False

    def _decide(
        self, rows: list[QueueRow], seen: Mapping[str, RunStatus], now: float
    ) -> None:
        """Start what can start, and say why the others wait."""
        facts, (note, submissions) = self.facts, self._note()
        basis = (self._rows and self._rows[0], facts, seen, note, submissions)
        if basis == self._basis and now - self._decided_at < DECIDED_FOR_S:
            return
        gpus = any(row.gpus for row in rows)
        use = self._store.gpu_use(now - DAY_S, now) if gpus else {}
        found = decide(
            *(rows, facts, self._rules, self._history, now, seen, note, use),
            submissions=submissions,
        )
        for row in found.starts:
            self._start(row, now)
        self.decision = found
        # Why runs wait is written where the store has it otherwise.
        whys = {row.id: why for row in rows if (why := self._why(row, seen)) != row.why}
        if changed := {run_id: why for run_id, why in whys.items() if why}:
            self._store.wait_reason(changed)
        # Those that should have started and did not are decided about again.
        self._basis = None if found.starts else basis
        self._decided_at = now

    def _why(self, row: QueueRow, seen: Mapping[str, RunStatus]) -> str:
        """Return why a run waits, here or where it shall run; "" for nothing."""
        if row.state is QueueState.STARTING and row.id in seen:
            return seen[row.id].waits[:MOST_WHY]
        standing = self.decision.standings.get(row.id)
        if row.state is not QueueState.WAITING or standing is None:
            return ""
        far = standing.ahead > MOST_AHEAD and not self.decision.note
        return "many runs before it" if far else standing.why

    def _start(self, row: QueueRow, now: float) -> None:
        """Claim a run that waits, and begin it."""
        if now < self._not_before.get(row.id, now):
            return
        if not self._store.claim(row.id, row.attempt):
            return
        self._history.note_start(row.team, row.lane, now)
        messages.step("run_start", run=row.id, team=row.team, attempt=row.attempt + 1)
        self._begin(row.id)

    def _settle(self, now: float) -> None:
        """Note what became of the starts that are over."""
        with self._lock:
            over, self._over_now = self._over_now, []
            self._under_way.difference_update(run_id for run_id, _ in over)
        for run_id, settle in over:
            row = self._store.run(run_id)
            if row is not None and row.state is QueueState.STARTING:
                settle(row, now)

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
                self._store.ended(row.id, now, Reason.RUNNER_LOST, why)
        elif row.id in self._under_way:
            return
        elif row.cancelled:
            # Slurm has let go of it before it began; or it may have begun, and asking
            # once more would start it: what is not begun by then never is.
            let_go = row.id in self._waiting
            if let_go or self._waited(row, now) >= UNKNOWN_WITHIN_S:
                self._store.ended(row.id, now, Reason.CANCELLED, row.why)
        elif row.id in self._since:
            if self._waited(row, now) >= CLAIMED_WITHIN_S:
                self._not_taken("no worker began it", row, now)
        elif now >= self._not_before.get(row.id, now):
            # A server that was killed had it begun, or was about to. No run is begun
            # twice, so it can be asked for again.
            self._begin(row.id)

    def _forget(self, known: set[str]) -> None:
        """Forget what was remembered of other runs, which have ended."""
        self._waiting &= known
        for memory in (self._since, self._cancelled_at, self._not_before):
            for gone in memory.keys() - known:
                del memory[gone]

    def _waited(self, row: QueueRow, now: float) -> float:
        return now - self._since.setdefault(row.id, now)

    def _not_taken(self, why: str, row: QueueRow, now: float) -> None:
        """Go on with a run that no worker claimed."""
        if row.attempt >= MOST_ATTEMPTS:
            why = f"{why}, {row.attempt} times"
            self._store.ended(row.id, now, Reason.RUNNER_LOST, why)
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
        """Start a run in this thread, and have the next step settle it."""
        settle: Settle = partial(self._uncertain, "the server stopped")
        try:
            settle = self._outcome(row)
        except Exception as error:  # whatever it is, it may have begun
            settle = partial(self._uncertain, repr(error))
        finally:
            with self._lock:
                self._over_now.append((row.id, settle))
            self.wake()

    def _outcome(self, row: QueueRow) -> Settle:
        """Start a run; return what becomes of its row then."""
        source = upload_path(self._folder, row.team, row.sha256)
        if not source.is_file():
            text = "the server no longer has the packed project of this run"
            problem = Problem(text, hint=AGAIN)
            return partial(self._refused, (problem,), Reason.INTERNAL)
        role, whose = self._rules.role(row.role), f"rai:{row.team}/{row.person}"
        slurm = {**role.slurm, "comment": printable(whose)}
        allowed = role.policy if row.submission is None else OF_MILESTONES
        terms = Terms(allowed=allowed, slurm=slurm)
        try:
            secret = json.decode(row.secrets, type=Secrets)
            asked = replace(from_json(row.parcel), secret=secret, terms=terms)
        except ValueError as error:  # as another version of rai wrote it
            problem = Problem(f"this request cannot be read: {error}", hint=AGAIN)
            return partial(self._refused, (problem,), Reason.INTERNAL)
        try:
            answer = self._runs.start(row.id, asked, source)
        except NotBegunError as error:
            return partial(self._not_taken, str(error))
        except BusyError as error:
            return partial(self._later, str(error))
        except RaiError as error:
            return partial(self._refused, error.problems, error.reason)
        if answer.reason is None:
            return self._taken
        if answer.reason is Reason.BUSY:
            return partial(self._later, _words(answer.problems))
        return partial(self._refused, answer.problems, answer.reason)

    def _taken(self, row: QueueRow, now: float) -> None:
        """Note that a worker has the run, or Slurm."""
        self._since[row.id] = now

    def _refused(
        self, problems: tuple[Problem, ...], reason: Reason, row: QueueRow, now: float
    ) -> None:
        """End a run that will never start; its team reads why."""
        if reason is Reason.BAD_CONFIG:  # of this machine
            reason = Reason.INTERNAL
        self._store.ended(row.id, now, reason, _words(problems))

    def _later(self, why: str, row: QueueRow, now: float) -> None:
        """Have a run wait again, of which nothing ran: there is no room for it."""
        self._back(row, why)
        self._not_before[row.id] = now + AGAIN_S

    def _uncertain(self, why: str, row: QueueRow, now: float) -> None:
        """Ask again later for a run that may have begun, as something failed."""
        self._not_before[row.id] = now + AGAIN_S
        messages.step("start_failed", run=row.id, error=why)

    def _back(self, row: QueueRow, why: str) -> None:
        self._store.unclaim(row.id, row.attempt, why)
        self._since.pop(row.id, None)
        messages.step("run_waits_again", run=row.id, team=row.team, why=why)

    def _end(self, row: QueueRow, seen: RunStatus, now: float) -> None:
        lost = seen.state is State.LOST
        reason = seen.reason or (Reason.RUNNER_LOST if lost else Reason.INTERNAL)
        at = now if seen.ended_at is None else seen.ended_at
        began = seen.started_at if row.started_at is None else row.started_at
        if began is not None:
            self._history.note_end(row.team, row.lane, at - began)
        why = row.why if row.cancelled else ""
        kept_bytes = min(max(seen.bytes, 0), MOST_KEPT_BYTES)
        self._store.ended(row.id, at, reason, why, kept_bytes)

    def _cancel(self, run_id: str, now: float) -> None:
        last = self._cancelled_at.get(run_id)
        if last is not None and now - last < CANCEL_AGAIN_S:
            return
        self._cancelled_at[run_id] = now
        try:
            self._runs.cancel(run_id)
        except RaiError as error:  # it may have ended meanwhile: the next look tells
            messages.step("cancel_failed", run=run_id, error=str(error))


def _words(problems: tuple[Problem, ...]) -> str:
    return "\n".join(str(problem) for problem in problems)
