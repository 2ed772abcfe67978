"""Runs whose rounds take turns, in random order, all containers alive.

A run is a generator, and nothing of it runs while nothing is asked of it. "Pair" stands
for one round of each run, however many runs there are.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing

from msgspec import Struct

from runner.core import Reason, RunRecord, State, record
from runner.core import events as ev
from runner.core.errors import Cancel
from runner.engines import Choice
from runner.execution import session
from runner.execution.bench_sides import LABELS, BenchSides
from runner.execution.prepare import Prepared
from runner.figures.comparison import Comparison, stands
from runner.figures.statistics import looks
from runner.report import diff, diff_nouns, phrases
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
    """An event of one of the runs; ``label`` is A, B, ..."""

    label: str
    event: ev.Event


class PairEnded(Struct, frozen=True):
    """All sides have ended one more round; the records are as they are now."""

    number: int
    runs: tuple[RunRecord, ...]


class BenchOutcome(Struct, frozen=True):
    """What a bench came to: all runs in order, and each but the first compared with it.

    ``why`` says why it ended when it did.

    ``failed`` is the label of the side that ended it by its own end, "" if none did;
    ``reason`` is then how that run ended.
    """

    runs: tuple[RunRecord, ...]
    paths: tuple[RunPaths, ...]
    comparisons: tuple[Comparison, ...]
    pairs: int
    why: str
    failed: str = ""
    reason: Reason = Reason.DONE


Clock = Callable[[], float]
BenchEvent = SideEvent | PairEnded | BenchOutcome


def take_turns(
    sides: BenchSides,
    plan: BenchPlan,
    cancel: Cancel,
    clock: Clock = time.monotonic,
) -> Generator[BenchEvent, None, None]:
    """Run all sides and yield what happens; the last is a BenchOutcome.

    First all get their image and their container, then each runs all of its commands,
    and then the rounds that are measured take turns. Closing the iterator early, or
    cancelling one of the runs, ends all.

    Raises:
        RaiError: a run could not be started.
    """
    turns = [
        _Turns(label, prepared, choice, cancel)
        for label, prepared, choice in zip(
            LABELS, sides.prepared, sides.choices, strict=False
        )
    ]
    yield from _Bench(turns, plan, cancel, clock).events()


class _Turns:
    """One of the runs, run piece by piece."""

    def __init__(
        self, label: str, prepared: Prepared, choice: Choice, cancel: Cancel
    ) -> None:
        self.label, self.cancel = label, Cancel(cancel)
        self.more = True
        self.run = session.start(prepared, choice=choice, go_on=lambda _: self.more)
        self.now: RunRecord | None = None
        self.round = -1
        self.end: ev.Finished | None = None
        self.events: Generator[ev.Event, None, None]

    @property
    def record(self) -> RunRecord:
        """The run's record so far, once it has begun."""
        assert self.now is not None
        return self.now

    def until(self, paused: Callable[[ev.Event], bool]) -> Iterator[SideEvent]:
        """Go on with the run up to an event, or to its end."""
        while self.end is None:
            event = next(self.events)
            now = time.time()
            begun = self.now
            self.now = (
                record.advance(begun, now, event) if begun else record.begin(now, event)
            )
            if isinstance(event, ev.RoundEnded):
                self.round = event.round
            if isinstance(event, ev.Finished):
                self.end = event
            yield SideEvent(self.label, event)
            if paused(event):
                return

    def stop(self, other: _Turns, how: str) -> None:
        """Cancel the run because of another."""
        self.cancel.request(f"run {other.run.id}, which it is measured beside, {how}")


class _Bench:
    """All runs, and how far they are."""

    def __init__(
        self, sides: list[_Turns], plan: BenchPlan, cancel: Cancel, clock: Clock
    ) -> None:
        self.sides, self.plan, self.cancel, self.clock = sides, plan, cancel, clock
        self.pairs, self.why = 0, ""
        self.ended_by: _Turns | None = None
        self.began_s, self.longest_s = 0.0, 0.0

    def events(self) -> Iterator[BenchEvent]:
        base, *others = self.sides
        with ExitStack() as stack:
            for side in self.sides:
                beside = others[0] if side is base else base
                side.events = side.run.events(side.cancel, beside=beside.run.id)
                stack.enter_context(closing(side.events))
            yield from self._measure()
            yield from self._end()
        yield self._outcome()

    def _measure(self) -> Iterator[BenchEvent]:
        """Go on with all until there is enough, or one of them has ended."""
        for paused in (_has_image, _runs):
            for side in self.sides:
                runs = side.now and side.now.state is State.RUNNING
                if not runs and self.ended_by is None:
                    yield from self._turn(side, paused)
        yield from self._round()
        self.began_s = self.clock()
        while self.ended_by is None and not self._is_enough():
            began_s = self.clock()
            yield from self._round()
            if self.ended_by is not None:
                return
            self.longest_s = max(self.longest_s, self.clock() - began_s)
            self.pairs += 1
            yield PairEnded(self.pairs, tuple(side.record for side in self.sides))

    def _round(self) -> Iterator[SideEvent]:
        """Let all have one round, in random order."""
        for side in random.sample(self.sides, len(self.sides)):
            if self.ended_by is None:
                yield from self._turn(
                    side, lambda event: isinstance(event, ev.RoundEnded)
                )

    def _turn(
        self, side: _Turns, paused: Callable[[ev.Event], bool]
    ) -> Iterator[SideEvent]:
        """Go on with one side; a cancel of any run is one of all."""
        for event in side.until(paused):
            yield event
            asked = next((one for one in self.sides if one.cancel.requested), None)
            for other in self.sides if asked else ():
                if asked and not other.cancel.requested:
                    other.stop(asked, "was cancelled")
        if side.end is not None:
            self.ended_by = self.ended_by or side

    def _is_enough(self) -> bool:
        """Decide after a pair whether to end here."""
        plan, spent_s = self.plan, self.clock() - self.began_s
        if self.cancel.requested:
            self.why = self.cancel.end[1]
        elif self.pairs >= plan.pairs:
            self.why = "that is the limit of --pairs"
        elif self.pairs == 1 and (odd := self._incomparable()):
            self.why = f"the figures are not comparable, as {odd} differs"
        elif self.pairs in looks(plan.pairs) and all(
            stands(one.metrics) for one in self._compared()
        ):
            self.why = "the main verdicts stand"
        elif self.pairs and spent_s + self.longest_s >= plan.budget_s:
            budget = phrases.seconds(plan.budget_s)
            self.why = f"one more pair may not end within {budget} (--budget)"
        return bool(self.why)

    def _compared(self) -> tuple[Comparison, ...]:
        base, *others = [side.record for side in self.sides]
        return tuple(diff.compared(base, one, self.plan.named) for one in others)

    def _incomparable(self) -> str:
        """Return what makes all main figures not comparable, "" if some are."""
        base, *others = [side.record for side in self.sides]
        main = [
            figure
            for found, one in zip(self._compared(), others, strict=True)
            for figure in diff.changes(base, one, found, diff.incomparable(base, one))
            if figure.primary
        ]
        spoiled = all(one.verdict == diff_nouns.NOT_COMPARABLE for one in main)
        return main[0].because if main and spoiled else ""

    def _end(self) -> Iterator[SideEvent]:
        """Bring all to their ends: build folders come back, containers go."""
        for side in self.sides:
            side.more = False
            if self.ended_by is not None and side.round < 0:
                # It has nothing to show yet.
                side.stop(self.ended_by, "ended first")
        for side in self.sides:
            yield from self._turn(side, lambda _: False)

    def _outcome(self) -> BenchOutcome:
        for side in self.sides:
            side.now = side.run.record
        # The one that ended the bench comes first.
        ends = sorted(self.sides, key=lambda side: side is not self.ended_by)
        verdicts = [(side, side.end.verdict) for side in ends if side.end]
        bad = ((s, v) for s, v in verdicts if v.reason is not Reason.DONE)
        failed, verdict = next(bad, (None, None))
        why = self.why
        if failed and verdict:
            why = why or f"{failed.label} ended: {verdict.message}"
        return BenchOutcome(
            tuple(side.record for side in self.sides),
            tuple(side.run.paths for side in self.sides),
            self._compared(),
            self.pairs,
            why or "no command that is measured ended well",
            failed.label if failed else "",
            verdict.reason if verdict else Reason.DONE,
        )


def _has_image(event: ev.Event) -> bool:
    return isinstance(event, ev.ImageReady) or _runs(event)


def _runs(event: ev.Event) -> bool:
    return isinstance(event, ev.StateChanged) and event.state is State.RUNNING
