"""`rai bench A [B]`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from runner import bench as measuring
from runner import report, session
from runner.bench import (
    BenchEnded,
    BenchEvent,
    BenchOutcome,
    BenchPlan,
    BenchSides,
    PairEnded,
    SideEvent,
)
from runner.bench.preparation import LABELS
from runner.cli import ci, common, gating, interrupt, suggestions
from runner.comparison import LEAST
from runner.comparison.conditions import Condition
from runner.comparison.gate import GateOutcome
from runner.core import Problem, Reason, record
from runner.core import events as ev
from runner.core.cancel import Cancel
from runner.core.errors import UsageError
from runner.core.variables import Secrets
from runner.report import Pairs, Table, benched
from runner.report import diff as differing
from runner.report.diff import RunDiff
from runner.session import Options
from runner.session.prepare import settings
from runner.store import scratch, sides
from runner.store.paths import Home
from runner.terminal import messages
from runner.terminal.console import SILENCE_S, Console, Mode
from runner.terminal.messages import COMMANDS_ENDED
from runner.terminal.tables import blocks

PAIRS = 30
MOST_PAIRS = 500

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
        str | None,
        typer.Argument(
            metavar="[B]",
            help="What is judged, such as HEAD.  [default: the project as it is now]",
            show_default=False,
        ),
    ] = None,
    path: Annotated[
        Path | None,
        typer.Option(
            "--path", "-p", metavar="DIR", help="The project's folder.  [default: .]"
        ),
    ] = None,
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
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|N",
            autocompletion=suggestions.commands,
            help="Run this command alone, as in `rai run`. Repeatable.",
        ),
    ] = None,
    fail_if: gating.FailIf = None,
    unsure: gating.UnsureOption = gating.Unsure.WARN,
    engine: common.Engine = None,
    profile: common.Profile = None,
    gpus: common.Gpus = None,
    wait: common.Wait = None,
    image: common.Image = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "-e",
            metavar="NAME[=VALUE]",
            help="A variable for the commands of both, as in `rai run`. Repeatable.",
        ),
    ] = None,
    quiet: common.Quiet = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the outcome on stdout; the rest on stderr."),
    ] = False,
    in_ci: ci.Ci = None,
    junit: ci.Junit = None,
) -> None:
    """Measure two versions in turn, and say whether one is slower.

    Both get a container of their own. Each runs all of its commands once; then what is
    measured runs in turn, in random order, until the verdict stands. Each side is a run
    with a record: `rai show`, `rai logs` and `rai diff` have it.

    \b
    rai bench main                        the project now against the branch main
    rai bench HEAD~1 HEAD                 two commits
    rai bench ../old . --command final    two folders, by one command
    rai bench main --fail-if "op_time>3%"
    """
    conditions = gating.conditions(fail_if)
    options = session.Options(
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
    with ci.session(in_ci, junit, answer=as_json) as reported:
        outcome, console = _carry_out(
            (before, after),
            path or Path(),
            options,
            pairs,
            conditions,
            reported,
            quiet=quiet,
            as_json=as_json,
        )
        status = _ended(outcome, conditions, unsure, console, reported, as_json=as_json)
    raise typer.Exit(status)


def _refuse_too_few(conditions: tuple[Condition, ...], pairs: int) -> None:
    """Refuse a gate that so few pairs cannot decide, before anything runs."""
    relative = [one.text for one in conditions if one.relative]
    if relative and pairs < LEAST:
        text = f'"{relative[0]}" needs {LEAST} pairs at least, and --pairs is {pairs}'
        raise UsageError(Problem(text, hint="allow more pairs"))


def _carry_out(
    words: tuple[str, str | None],
    project: Path,
    options: Options,
    pairs: int,
    conditions: tuple[Condition, ...],
    reported: ci.CiSession,
    *,
    quiet: bool,
    as_json: bool,
) -> tuple[BenchOutcome, Console]:
    """Carry both runs out and show them; signals end both cleanly.

    A gate whose figures the first pair does not have ends both.
    """

    found, _ = settings(options)
    both = (
        measuring.source(words[0], project),
        measuring.source(words[1], project),
    )
    cancel = Cancel()
    console = reported.console(common.mode(quiet), to_stderr=as_json)
    with (
        interrupt.cancel_on_signals(cancel, console),
        scratch.folder(Home(found.home).benches) as area,
    ):
        sides = measuring.prepared(both, project, options, area, cancel)
        if console.mode is not Mode.QUIET:
            reported.warn(sides.warnings)
        for text in session.tidy(found):
            console.line(text, "yellow")
        named = gating.named(conditions)
        asked = BenchPlan(pairs, sides.budget_s, named)
        shown = BenchShown(console, sides, asked)
        try:
            with closing(measuring.carry_out(sides, asked, cancel)) as events:
                for event in events:
                    if isinstance(event, BenchEnded):
                        return event.outcome, console
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
    """Refuse a gate that more pairs cannot decide; both runs end by that."""
    problems = gating.impossible(conditions, pair.before, pair.after)
    if problems:
        console.line("Ending both runs: the gate cannot be judged.", "red")
        raise UsageError(*problems)


def _ended(
    outcome: BenchOutcome,
    conditions: tuple[Condition, ...],
    unsure: gating.Unsure,
    console: Console,
    reported: ci.CiSession,
    *,
    as_json: bool,
) -> int:
    """Print what came of it, judge it, and return the exit status."""
    console.close()
    _show_end(outcome, console)
    found = _difference(outcome)
    gate = None
    if conditions and outcome.pairs and not outcome.failed:
        gate = gating.of_diff(
            conditions,
            found,
            outcome.comparison,
            outcome.after,
            unsure,
        )
    _report_to(reported, outcome, found, gate)
    if as_json:
        more = {"gate": record.plain(gate)} if gate else {}
        common.print_json({**_plain(outcome, found), **more})
    elif outcome.pairs:
        _report_on(outcome, found)
    if not outcome.pairs or outcome.failed:
        return _early(outcome, console)
    return gating.told(gate, console.line) if gate else 0


def _early(outcome: BenchOutcome, console: Console) -> int:
    """Print why a bench ended early; return the exit status of what ended it."""
    if outcome.reason is Reason.CANCELLED:
        return outcome.reason.exit_code
    if not outcome.failed:
        console.line(f"Nothing was compared: {outcome.why}.", "red")
        return Reason.COMMAND_FAILED.exit_code
    run = outcome.before if outcome.failed == "A" else outcome.after
    console.line(f"The bench ended early, because {outcome.failed} failed.", "red")
    printed = outcome.reason.exit_code in COMMANDS_ENDED
    again = "See what it printed: rai logs" if printed else "See it again: rai show"
    console.line(f"{outcome.reason.advice} {again} {run.id}", "yellow")
    return outcome.reason.exit_code


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


def _show_end(outcome: BenchOutcome, console: Console) -> None:
    """Show how both runs ended, and why there are no more pairs."""
    for label, run in zip(LABELS, (outcome.before, outcome.after), strict=True):
        text, colour = messages.told(run)
        console.line(f"{label}: {text}", colour)
    if outcome.pairs and not outcome.failed:
        console.line(f"Compared after {_pairs(outcome.pairs)}: {outcome.why}.", "cyan")


def _pairs(count: int) -> str:
    return "1 pair" if count == 1 else f"{count} pairs"


def _difference(outcome: BenchOutcome) -> RunDiff:
    """Return all that differs between the two runs."""
    both = sides.of(*outcome.paths, outcome.before, outcome.after)
    return differing.between(*both, outcome.comparison)


def _report_on(outcome: BenchOutcome, found: RunDiff) -> None:
    """Print what cannot be compared, the figures, and a sentence for each verdict."""
    said = benched.verdicts(found, outcome.comparison)
    names = ("verdict" if len(said) == 1 else "verdicts", *("" for _ in said))
    rows = tuple(zip(names, said, strict=False))
    blocks([*differing.measured(found, LABELS), *([Pairs(rows)] if rows else [])])


def _report_to(
    reported: ci.CiSession,
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


def _plain(outcome: BenchOutcome, found: RunDiff) -> dict[str, Any]:
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
