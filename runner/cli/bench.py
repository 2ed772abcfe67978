"""`rai bench A [B...]`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import Struct

from runner.cli import ci, common, gating, suggestions
from runner.core import Problem, Reason, Severity
from runner.core import events as ev
from runner.core.errors import Cancel, UsageError
from runner.core.work import Secrets
from runner.execution import prepare, session
from runner.execution.bench import (
    BenchEvent,
    BenchOutcome,
    BenchPlan,
    PairEnded,
    SideEvent,
    take_turns,
)
from runner.execution.bench_sides import LABELS, BenchSides, prepared, source
from runner.execution.prepare import Options, settings
from runner.figures.comparison import LEAST
from runner.figures.gate import Condition, GateOutcome, parse
from runner.figures.statistics import MOST_PAIRS
from runner.report import benched, diff_blocks, evidence, phrases
from runner.report import diff as differing
from runner.report.blocks import Block, Pairs
from runner.report.diff_nouns import RunDiff
from runner.store import removal
from runner.store.paths import Home
from runner.terminal import messages
from runner.terminal.console import Console
from runner.terminal.layout import blocks
from runner.terminal.messages import COMMANDS_ENDED

PAIRS = 30

_NOT_SHOWN = (ev.Finished, ev.Collected)
_QUIET = (ev.Progress, ev.Tick, ev.Output, ev.BuildOutput)


def bench(
    before: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="What is compared with: a commit of the project's repository, or a"
            " folder.",
        ),
    ],
    after: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[B]...",
            help="What is judged, such as HEAD; several are each compared with A."
            "  [default: the project as it is now]",
            show_default=False,
        ),
    ] = None,
    path: common.ProjectFolder = None,
    pairs: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=MOST_PAIRS, help="How many pairs of rounds at most."
        ),
    ] = PAIRS,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="For how long both are measured, e.g. 90s or 10m; as long as the run's"
            " time limit unless given.",
        ),
    ] = None,
    command: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|N",
            autocompletion=suggestions.commands,
            help="What is measured; else the commands that printed a time, a"
            " correctness or a profile. Repeatable.",
        ),
    ] = None,
    only: common.Only = None,
    fail_if: gating.FailIf = None,
    unsure: gating.UnsureOption = gating.Unsure.WARN,
    engine: common.Engine = None,
    profile: common.Profile = None,
    gpus: common.Gpus = None,
    wait: common.Wait = None,
    image: common.Image = None,
    env: common.Env = None,
    quiet: common.Quiet = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the outcome on stdout; the rest on stderr."),
    ] = False,
    in_ci: ci.Ci = None,
    junit: ci.Junit = None,
) -> None:
    """Measure versions in turn, and say whether one is slower.

    Each gets a container of its own and runs all of its commands once; then what is
    measured runs in turn, in random order, until the verdict stands. Each side is a run
    with a record: `rai show`, `rai logs` and `rai diff` have it.

    \b
    rai bench main                        the project now against the branch main
    rai bench HEAD~1 HEAD                 two commits
    rai bench main one other              two branches, each against main
    rai bench ../old . --command final    two folders, by one command
    rai bench main --fail-if "op_time>3%"
    """
    conditions = parse(fail_if or ())
    options = prepare.Options(
        engine,
        profile,
        gpus,
        wait,
        secrets=Secrets(common.variables(env or ())),
        only=tuple(only or ()),
        image=image,
        measured=tuple(command or ()),
        budget=budget,
        stop_grace_s=ci.grace_s(in_ci),
    )
    _refuse_too_few(conditions, pairs)
    given = (before, *(after or (None,)))
    if len(given) > len(LABELS):
        raise UsageError(f"{len(given)} sides; a bench has {len(LABELS)} at most")
    with ci.session(in_ci, junit, answer=as_json) as reported:
        console = reported.console(quiet, to_stderr=as_json)
        outcome, found = _measured(
            given, path or Path(), options, pairs, conditions, reported, console
        )
        results = list(_results(outcome, found, conditions, unsure))
        status = _ended(outcome, results, console, reported, as_json=as_json)
    raise typer.Exit(status)


class _Result(Struct, frozen=True):
    """One side compared with the first, and what the gate makes of it.

    ``title`` sums it up in a line.
    """

    label: str
    diff: RunDiff
    gate: GateOutcome | None
    blocks: list[Block]
    title: str


def _refuse_too_few(conditions: tuple[Condition, ...], pairs: int) -> None:
    """Refuse a gate that so few pairs cannot decide, before anything runs."""
    relative = [one.text for one in conditions if one.relative]
    if relative and pairs < LEAST:
        text = f'"{relative[0]}" needs {LEAST} pairs at least, and --pairs is {pairs}'
        raise UsageError(Problem(text, hint="allow more pairs"))


def _measured(
    given: tuple[str | None, ...],
    project: Path,
    options: Options,
    pairs: int,
    conditions: tuple[Condition, ...],
    reported: ci.CiSession,
    console: Console,
) -> tuple[BenchOutcome, BenchSides]:
    """Run all sides and show them; signals end all cleanly.

    A gate whose figures the first pair does not have ends all.
    """
    found, _ = settings(options)
    named = tuple(source(word, project) for word in given)
    for one in named:
        if one.instead:
            reported.warn([Problem(one.instead, severity=Severity.WARNING)])
    cancel = Cancel()
    with (
        common.cancel_on_signals(cancel, console),
        removal.folder(Home(found.home).benches) as area,
    ):
        ready = prepared(named, project, options, area, cancel)
        if not console.quiet:
            reported.warn(ready.warnings)
        for text in session.tidy(found):
            console.line(text, "yellow")
        asked = BenchPlan(pairs, ready.budget_s, gating.named(conditions))
        shown = BenchShown(console, ready, asked)
        try:
            with closing(take_turns(ready, asked, cancel)) as events:
                for event in events:
                    if isinstance(event, BenchOutcome):
                        return event, ready
                    shown.show(event)
                    if isinstance(event, PairEnded) and event.number == 1:
                        _refuse_impossible(conditions, event, console)
        except KeyboardInterrupt:
            shown.interrupted()
            raise
    raise AssertionError("a bench ends with its outcome")


def _refuse_impossible(
    conditions: tuple[Condition, ...],
    pair: PairEnded,
    console: Console,
) -> None:
    """Refuse a gate that more pairs cannot decide; all runs end by that."""
    base, *others = pair.runs
    for one in others:
        if problems := gating.impossible(conditions, base, one):
            console.line("Ending all runs: the gate cannot be judged.", "red")
            raise UsageError(*problems)


def _results(
    outcome: BenchOutcome,
    given: BenchSides,
    conditions: tuple[Condition, ...],
    unsure: gating.Unsure,
) -> Iterator[_Result]:
    """Yield each side but the first, compared with that."""
    base, names = outcome.runs[0], [side.brief for side in given.sources]
    for at, comparison in enumerate(outcome.comparisons, 1):
        run, label = outcome.runs[at], LABELS[at]
        both = evidence.read_side(outcome.paths[0], outcome.paths[at], base, run)
        found = differing.between(*both, comparison)
        gate = None
        if conditions and outcome.pairs and not outcome.failed:
            gate = gating.of_diff(conditions, found, comparison, run, unsure)
        labels = (LABELS[0], label)
        said = benched.verdicts(found)
        heads = ("verdict" if len(said) == 1 else "verdicts", *("" for _ in said))
        parts: list[Block] = [
            *diff_blocks.measured(found, labels),
            *benched.spreads(base, run, found, labels),
        ]
        if said:
            parts.append(Pairs(tuple(zip(heads, said, strict=False))))
        title = benched.headline(found, gate, (names[0], names[at]), outcome.failed)
        yield _Result(label, found, gate, parts, title)


def _ended(
    outcome: BenchOutcome,
    results: list[_Result],
    console: Console,
    reported: ci.CiSession,
    *,
    as_json: bool,
) -> int:
    """Print what came of it, and return the exit status."""
    console.close()
    _show_end(outcome, console)
    for paths, run in zip(outcome.paths, outcome.runs, strict=True):
        reported.ended(paths, run)
    for one in results:
        reported.concluded(one.title, one.blocks if outcome.pairs else [], one.gate)
    if as_json:
        common.print_json(_plain(outcome, results))
    elif outcome.pairs:
        blocks([block for one in results for block in one.blocks])
    if not outcome.pairs or outcome.failed:
        return _early(outcome, console)
    gate = _together(results)
    return gating.print_outcome(gate, console.line) if gate else 0


def _together(results: list[_Result]) -> GateOutcome | None:
    """Return the gates of all sides as one; of several each sentence has its label."""
    gates = [(one.label, one.gate) for one in results if one.gate]
    if len(gates) < 2:
        return gates[0][1] if gates else None

    def every(kind: str) -> tuple[str, ...]:
        return tuple(
            f"{at}: {text}" for at, one in gates for text in getattr(one, kind)
        )

    refused = dict.fromkeys(problem for _, one in gates for problem in one.refused)
    return GateOutcome(
        every("failed"), every("passed"), every("unsure"), tuple(refused)
    )


def _early(outcome: BenchOutcome, console: Console) -> int:
    """Print why a bench ended early; return the exit status of what ended it."""
    if outcome.reason is Reason.CANCELLED:
        return outcome.reason.exit_code
    if not outcome.failed:
        console.line(f"Nothing was compared: {outcome.why}.", "red")
        return Reason.COMMAND_FAILED.exit_code
    run = outcome.runs[LABELS.index(outcome.failed)]
    console.line(f"The bench ended early, because {outcome.failed} failed.", "red")
    printed = outcome.reason.exit_code in COMMANDS_ENDED
    again = "See what it printed: rai logs" if printed else "See it again: rai show"
    console.line(f"{outcome.reason.advice} {again} {run.id}", "yellow")
    return outcome.reason.exit_code


class BenchShown:
    """Shows the events of all runs: whose they are, then a line for each pair."""

    def __init__(self, console: Console, given: BenchSides, plan: BenchPlan) -> None:
        self._console, self._plan = console, plan
        named = zip(LABELS, given.sources, strict=False)
        self._what = {label: source.shown for label, source in named}
        self._side = ""
        self._runs: list[str] = []
        self._first = dict.fromkeys(self._what, True)

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
        if not isinstance(event, _NOT_SHOWN):
            self._console.show(event)

    def _announce(self) -> None:
        most = f"{_pairs(self._plan.pairs)} at most"
        budget = phrases.seconds(self._plan.budget_s)
        *some, last = self._what
        names = f"{', '.join(some)} and {last}"
        self._console.line(
            f"Measuring {names} in turn: {most}, {budget} at most.", "cyan"
        )
        self._console.announce(*self._runs)

    def _pair(self, event: PairEnded) -> None:
        found = benched.pair(event.runs, LABELS, self._plan.named)
        number = f"Pair {event.number}"
        self._console.latest(f"{number}: {found}" if found else number)


def _show_end(outcome: BenchOutcome, console: Console) -> None:
    """Show how all runs ended, and why there are no more pairs."""
    for label, run in zip(LABELS, outcome.runs, strict=False):
        text, colour = messages.end_of(run)
        console.line(f"{label}: {text}", colour)
    if outcome.pairs and not outcome.failed:
        console.line(f"Compared after {_pairs(outcome.pairs)}: {outcome.why}.", "cyan")


def _pairs(count: int) -> str:
    return "1 pair" if count == 1 else f"{count} pairs"


def _plain(outcome: BenchOutcome, results: list[_Result]) -> dict[str, Any]:
    """Return the outcome as `--json` prints it; ``others`` are the sides from C on."""
    sides = [
        {
            "after": run,
            "diff": one.diff,
            **({"gate": one.gate} if one.gate else {}),
        }
        for run, one in zip(outcome.runs[1:], results, strict=True)
    ]
    return {
        "before": outcome.runs[0],
        **sides[0],
        "others": sides[1:],
        "pairs": outcome.pairs,
        "why": outcome.why,
        "failed": outcome.failed,
        "reason": outcome.reason.value,
    }


def _tells(event: ev.Event) -> bool:
    return not isinstance(event, (*_QUIET, *_NOT_SHOWN, ev.StateChanged, ev.RoundEnded))
