"""`rai bench A [B]`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli import ci, common, gating, suggestions

if TYPE_CHECKING:
    from runner.bench import BenchOutcome, PairEnded
    from runner.comparison.conditions import Condition
    from runner.session import Options
    from runner.terminal.console import Console

PAIRS = 30
MOST_PAIRS = 500


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
    from runner import session
    from runner.core.variables import Secrets

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
    from runner.comparison import LEAST
    from runner.core import Problem
    from runner.core.errors import UsageError

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
    from contextlib import closing

    from runner import bench as measuring
    from runner import session
    from runner.cli import benching, interrupt
    from runner.core.cancel import Cancel
    from runner.session.prepare import settings
    from runner.store import scratch
    from runner.store.paths import Home
    from runner.terminal.console import Mode

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
        asked = measuring.BenchPlan(pairs, sides.budget_s, named)
        shown = benching.BenchShown(console, sides, asked)
        try:
            with closing(measuring.carry_out(sides, asked, cancel)) as events:
                for event in events:
                    if isinstance(event, measuring.BenchEnded):
                        return event.outcome, console
                    shown.show(event)
                    if isinstance(event, measuring.PairEnded) and event.number == 1:
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
    from runner.core.errors import UsageError

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
    from runner.cli import benching
    from runner.core import record

    console.close()
    benching.ended(outcome, console)
    found = benching.difference(outcome)
    gate = None
    if conditions and outcome.pairs and not outcome.failed:
        gate = gating.of_diff(
            conditions,
            found,
            outcome.comparison,
            outcome.after,
            unsure,
        )
    benching.report_to(reported, outcome, found, gate)
    if as_json:
        more = {"gate": record.plain(gate)} if gate else {}
        common.print_json({**benching.plain(outcome, found), **more})
    elif outcome.pairs:
        benching.report_on(outcome, found)
    if not outcome.pairs or outcome.failed:
        return _early(outcome, console)
    return gating.told(gate, console.line) if gate else 0


def _early(outcome: BenchOutcome, console: Console) -> int:
    """Print why a bench ended early; return the exit status of what ended it."""
    from runner.core import Reason
    from runner.terminal.messages import COMMANDS_ENDED

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
