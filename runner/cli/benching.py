"""Show a bench while it goes on, and its outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runner import report
from runner.bench import (
    BenchEvent,
    BenchOutcome,
    BenchPlan,
    BenchSides,
    PairEnded,
    SideEvent,
)
from runner.bench.preparation import LABELS
from runner.core import events as ev
from runner.core import record
from runner.report import Pairs, Table, benched
from runner.report import diff as differing
from runner.report.diff import RunDiff
from runner.store import sides
from runner.terminal import messages
from runner.terminal.console import SILENCE_S, Console, Mode
from runner.terminal.tables import blocks

if TYPE_CHECKING:
    from runner.cli.ci import CiSession
    from runner.comparison.gate import GateOutcome

_NOT_SHOWN = (ev.Finished, ev.Collected)
_QUIET = (ev.Progress, ev.Tick, ev.Output, ev.BuildOutput)


class BenchShown:
    """Shows the events of both runs: whose they are, then a line for each pair."""

    def __init__(self, console: Console, both: BenchSides, plan: BenchPlan) -> None:
        self._console, self._plan = console, plan
        self._what = {
            label: source.shown
            for label, source in zip(LABELS, both.sources, strict=True)
        }
        self._side = ""
        self._runs: list[str] = []
        self._first = dict.fromkeys(LABELS, True)

    def show(self, event: BenchEvent) -> None:
        """Show one event."""
        if isinstance(event, PairEnded):
            self._pair(event)
        elif isinstance(event, SideEvent):
            self._of_side(event.label, event.event)

    def interrupted(self) -> None:
        """Print the ids of the runs, after a second Ctrl-C."""
        again = ", ".join(f"rai show {run}" for run in self._runs)
        self._console.line(f"Bench interrupted. See it again: {again}", "red")

    def _of_side(self, label: str, event: ev.Event) -> None:
        if isinstance(event, ev.Created):
            text = f"{label}: {self._what[label]}, run {event.run_id}"
            self._side = label
            self._runs.append(event.run_id)
            self._console.line(text, "cyan")
        if isinstance(event, ev.RoundEnded) and self._first[label]:
            self._first[label] = False
            if not any(self._first.values()):
                self._announce()
        if label != self._side and self._first[label] and _tells(event):
            self._side = label
            self._console.line(f"{label}: {self._what[label]}", "cyan")
        if not isinstance(event, _NOT_SHOWN) and not self._is_brief(event):
            self._console.show(event)

    def _is_brief(self, event: ev.Event) -> bool:
        """Whether it is a tick of a short round, which needs no line in a log."""
        in_turn = not any(self._first.values()) and self._console.mode is Mode.PLAIN
        return in_turn and isinstance(event, ev.Tick) and event.elapsed_s < SILENCE_S

    def _announce(self) -> None:
        budget = report.seconds(self._plan.budget_s)
        text = (
            f"Measuring A and B in turn: {_pairs(self._plan.pairs)} at most, {budget}"
        )
        self._console.line(f"{text} at most.", "cyan")
        self._console.announce(*self._runs)

    def _pair(self, event: PairEnded) -> None:
        found = benched.pair(event.before, event.after, self._plan.named)
        number = f"Pair {event.number}"
        self._console.latest(f"{number}: {found}" if found else number)


def ended(outcome: BenchOutcome, console: Console) -> None:
    """Show how both runs ended, and why there are no more pairs."""
    for label, run in zip(LABELS, (outcome.before, outcome.after), strict=True):
        text, colour = messages.told(run)
        console.line(f"{label}: {text}", colour)
    if outcome.pairs and not outcome.failed:
        console.line(f"Compared after {_pairs(outcome.pairs)}: {outcome.why}.", "cyan")


def _pairs(count: int) -> str:
    return "1 pair" if count == 1 else f"{count} pairs"


def difference(outcome: BenchOutcome) -> RunDiff:
    """Return all that differs between the two runs."""
    both = sides.of(*outcome.paths, outcome.before, outcome.after)
    return differing.between(*both, outcome.comparison)


def report_on(outcome: BenchOutcome, found: RunDiff) -> None:
    """Print what cannot be compared, the figures, and a sentence for each verdict."""
    said = benched.verdicts(found, outcome.comparison)
    names = ("verdict" if len(said) == 1 else "verdicts", *("" for _ in said))
    rows = tuple(zip(names, said, strict=False))
    blocks([*differing.measured(found, LABELS), *([Pairs(rows)] if rows else [])])


def report_to(
    reported: CiSession,
    outcome: BenchOutcome,
    found: RunDiff,
    gate: GateOutcome | None,
) -> None:
    """Tell a CI system of both runs, their comparison, and a gate that failed."""
    for paths, run in zip(outcome.paths, (outcome.before, outcome.after), strict=True):
        reported.ended(paths, run)
    if outcome.pairs:
        said = benched.verdicts(found, outcome.comparison)
        verdicts = Table("Verdicts", ("",), tuple((text,) for text in said))
        reported.show([*differing.measured(found, LABELS), verdicts])
    if gate:
        reported.failed("rai: gate", gate.failed)


def plain(outcome: BenchOutcome, found: RunDiff) -> dict[str, Any]:
    """Return the outcome as `--json` prints it."""
    return {
        "before": record.plain(outcome.before),
        "after": record.plain(outcome.after),
        "diff": record.plain(found),
        "pairs": outcome.pairs,
        "why": outcome.why,
        "failed": outcome.failed,
        "reason": outcome.reason.value,
    }


def _tells(event: ev.Event) -> bool:
    return not isinstance(event, (*_QUIET, *_NOT_SHOWN, ev.StateChanged, ev.RoundEnded))
