"""Two runs whose rounds take turns, in random order, both containers alive.

A run is a generator, and nothing of it runs while nothing is asked of it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing

from msgspec import Struct

from runner import report, session
from runner.bench.preparation import LABELS, BenchSides
from runner.comparison import Comparison, looks, stands
from runner.core import Reason, RunRecord, State, record
from runner.core import events as ev
from runner.core.cancel import Cancel
from runner.report import diff
from runner.session import Run
from runner.store.paths import RunPaths


class BenchPlan(Struct, frozen=True):
    """How long a bench goes on.

    ``pairs`` is the most pairs of rounds, ``budget_s`` how long they may take together,
    ``named`` the metrics that a gate asks for.
    """

    pairs: int
    budget_s: float
    named: tuple[str, ...] = ()


class SideEvent(Struct, frozen=True):
    """An event of one of the runs; ``label`` is A or B."""

    label: str
    event: ev.Event


class PairEnded(Struct, frozen=True):
    """Both sides have ended one more round; the records are as they are now."""

    number: int
    before: RunRecord
    after: RunRecord


class BenchOutcome(Struct, frozen=True):
    """What a bench came to: both runs, A first, and their figures compared.

    ``why`` says why it ended when it did.

    ``failed`` is the label of the side that ended it by its own end, "" if none did;
    ``reason`` is then how that run ended.
    """

    before: RunRecord
    after: RunRecord
    paths: tuple[RunPaths, RunPaths]
    comparison: Comparison
    pairs: int
    why: str
    failed: str = ""
    reason: Reason = Reason.DONE


class BenchEnded(Struct, frozen=True):
    """The last event of a bench."""

    outcome: BenchOutcome


BenchEvent = SideEvent | PairEnded | BenchEnded


def carry_out(
    sides: BenchSides,
    plan: BenchPlan,
    cancel: Cancel,
    clock: Callable[[], float] = time.monotonic,
) -> Generator[BenchEvent, None, None]:
    """Carry both runs out and yield what happens; the last event is BenchEnded.

    First both get their image and their container, then each runs all of its commands,
    and then the rounds that are measured take turns. Closing the iterator early, or
    cancelling either run, ends both.

    Raises:
        RaiError: a run could not be started.
    """
    yield from _Bench(sides, plan, cancel, clock).events()


class _Turns:
    """One of the runs, carried out piece by piece."""

    def __init__(self, label: str, sides: BenchSides, cancel: Cancel) -> None:
        at = LABELS.index(label)
        self.label, self.cancel = label, Cancel(cancel)
        self.more = True
        self.run: Run = session.start(
            sides.prepared[at], choice=sides.choices[at], go_on=lambda _: self.more
        )
        self.record: RunRecord | None = None
        self.running = False
        self.round = -1
        self.end: ev.Finished | None = None
        self._events: Generator[ev.Event, None, None] = iter(())  # type: ignore[assignment]

    def begin(self, beside: Run) -> Generator[ev.Event, None, None]:
        """Begin the run, beside another; return its events, to be closed."""
        self._events = self.run.events(self.cancel, beside=beside.id)
        return self._events

    def until(self, paused: Callable[[ev.Event], bool]) -> Iterator[SideEvent]:
        """Carry the run on up to an event, or to its end."""
        while self.end is None:
            event = next(self._events)
            self._follow(event)
            yield SideEvent(self.label, event)
            if paused(event):
                return

    def _follow(self, event: ev.Event) -> None:
        now = time.time()
        if self.record is None:
            self.record = record.begin(now, event)
        else:
            self.record = record.advance(self.record, now, event)
        if isinstance(event, ev.RoundEnded):
            self.round = event.round
        if isinstance(event, ev.Finished):
            self.end = event
        self.running = self.running or _runs(event)


class _Bench:
    """Both runs, and how far they are."""

    def __init__(
        self,
        sides: BenchSides,
        plan: BenchPlan,
        cancel: Cancel,
        clock: Callable[[], float],
    ) -> None:
        self.plan, self.cancel, self.clock = plan, cancel, clock
        self.first = _Turns("A", sides, cancel)
        self.second = _Turns("B", sides, cancel)
        self.both = (self.first, self.second)
        self.pairs, self.why = 0, ""
        self.ended_by: _Turns | None = None
        self.began_s, self.longest_s = 0.0, 0.0

    def events(self) -> Iterator[BenchEvent]:
        with ExitStack() as stack:
            for one, other in (self.both, self.both[::-1]):
                stack.enter_context(closing(one.begin(other.run)))
            yield from self._measure()
            yield from self._end()
        yield BenchEnded(self._outcome())

    def _measure(self) -> Iterator[BenchEvent]:
        """Carry both on until there is enough, or one of them has ended."""
        for paused in (_has_image, _runs):
            for side in self.both:
                if not side.running and not self._over:
                    yield from self._turn(side, paused)
        yield from self._round()
        self.began_s = self.clock()
        while not self._over and not self._is_enough():
            began_s = self.clock()
            yield from self._round()
            if self._over:
                return
            self.longest_s = max(self.longest_s, self.clock() - began_s)
            self.pairs += 1
            yield PairEnded(self.pairs, *self._records())

    def _round(self) -> Iterator[SideEvent]:
        """Let both have one round, in random order."""
        for side in random.sample(self.both, 2):
            if not self._over:
                yield from self._turn(side, _ends_a_round)

    def _turn(
        self, side: _Turns, paused: Callable[[ev.Event], bool]
    ) -> Iterator[SideEvent]:
        """Carry one side on; a cancel of either run is one of both."""
        for event in side.until(paused):
            yield event
            self._cancel_both()
        if side.end is not None:
            self.ended_by = self.ended_by or side

    def _cancel_both(self) -> None:
        for one, other in (self.both, self.both[::-1]):
            if one.cancel.requested and not other.cancel.requested:
                other.cancel.request(_beside(one, "was cancelled"))

    @property
    def _over(self) -> bool:
        return self.ended_by is not None

    def _is_enough(self) -> bool:
        """Decide after a pair whether to end here."""
        plan, spent_s = self.plan, self.clock() - self.began_s
        if self.cancel.requested:
            self.why = self.cancel.end[1]
        elif self.pairs >= plan.pairs:
            self.why = "--pairs allows no more"
        elif self.pairs == 1 and (odd := self._incomparable()):
            self.why = f"the figures are not comparable, as {odd} differs"
        elif self.pairs in looks(plan.pairs) and self._stands():
            self.why = "the main verdicts stand"
        elif self.pairs and spent_s + self.longest_s >= plan.budget_s:
            budget = report.seconds(plan.budget_s)
            self.why = f"one more pair may not end within {budget} (--budget)"
        return bool(self.why)

    def _stands(self) -> bool:
        found = diff.compared(*self._records(), self.plan.named)
        return stands(found.metrics, self.pairs, self.plan.pairs)

    def _incomparable(self) -> str:
        """Return what makes all main figures not comparable, "" if some are."""
        before, after = self._records()
        found = diff.compared(before, after, self.plan.named)
        odd = diff.unlike(before, after)
        main = [one for one in diff.changes(before, after, found, odd) if one.primary]
        spoiled = main and all(one.verdict == diff.NOT_COMPARABLE for one in main)
        return main[0].because if spoiled else ""

    def _end(self) -> Iterator[SideEvent]:
        """Carry both to their ends: build folders come back, containers go."""
        for side in self.both:
            side.more = False
            if self.ended_by is not None and side.round < 0:
                # It has nothing to show yet.
                side.cancel.request(_beside(self.ended_by, "ended first"))
        for side in self.both:
            yield from self._turn(side, lambda _: False)

    def _records(self) -> tuple[RunRecord, RunRecord]:
        before, after = self.first.record, self.second.record
        assert before is not None and after is not None  # both have begun
        return before, after

    def _outcome(self) -> BenchOutcome:
        before, after = self.first.run.record, self.second.run.record
        found = diff.compared(before, after, self.plan.named)
        failed = next((s for s in self._by_end() if not _is_done(s)), None)
        why = self.why
        if failed is not None and failed.end is not None:
            why = why or f"{failed.label} ended: {failed.end.verdict.message}"
        return BenchOutcome(
            before,
            after,
            (self.first.run.paths, self.second.run.paths),
            found,
            self.pairs,
            why or "no command that is measured ended well",
            failed.label if failed else "",
            failed.end.verdict.reason if failed and failed.end else Reason.DONE,
        )

    def _by_end(self) -> list[_Turns]:
        """Return both, the one first that ended the bench."""
        return sorted(self.both, key=lambda side: side is not self.ended_by)


def _beside(side: _Turns, how: str) -> str:
    return f"run {side.run.id}, which it is measured beside, {how}"


def _is_done(side: _Turns) -> bool:
    return side.end is not None and side.end.verdict.reason is Reason.DONE


def _has_image(event: ev.Event) -> bool:
    return isinstance(event, ev.ImageReady) or _runs(event)


def _runs(event: ev.Event) -> bool:
    return isinstance(event, ev.StateChanged) and event.state is State.RUNNING


def _ends_a_round(event: ev.Event) -> bool:
    return isinstance(event, ev.RoundEnded)
