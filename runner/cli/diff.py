"""`rai diff [A] [B]`."""

from __future__ import annotations

from typing import Annotated

import typer

from runner.cli import ci, common, copies, gating
from runner.core import Reason, RunRecord
from runner.core.errors import UsageError
from runner.execution import places
from runner.figures.gate import parse
from runner.report import diff as differing
from runner.report import diff_blocks, evidence
from runner.store.home import before, latest
from runner.store.paths import RunPaths
from runner.terminal.layout import blocks


def diff(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[A]",
            help="The earlier run; alone, the later one: it is compared with the run of"
            " its project before it.  [default: latest]",
            show_default=False,
        ),
    ] = None,
    other: Annotated[
        str | None,
        typer.Argument(metavar="[B]", help="The later run.", show_default=False),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="The earlier run: `B --baseline A` is `A B`."),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Show what is equal too, and all rows of tables."),
    ] = False,
    fail_if: gating.FailIf = None,
    unsure: gating.UnsureOption = gating.Unsure.WARN,
    as_json: common.JsonFlag = False,
    in_ci: ci.Ci = None,
) -> None:
    """Show what differs between two runs.

    First what makes their figures not comparable, such as another GPU or other data;
    then how the commands ended, times, Op Times, profiles and memory; then the build
    file, the project's files, and the machines. One sample a side shows differences
    and gives no verdict: `rai bench` and `rai run --repeat N` take more.
    """
    gate = parse(fail_if or ())
    with ci.session(in_ci, answer=as_json) as reported:
        earlier, later = _named(run, other, baseline)
        old, new = places.record_of(earlier), places.record_of(later)
        if old.archive_sha256 != new.archive_sha256:
            copies.fetch_sources(earlier, later)
        compared = differing.compared(old, new, named=gating.named(gate))
        found = differing.between(
            *evidence.read_side(earlier, later, old, new), compared
        )
        judged = None
        if gate:
            _judgeable(new)
            judged = gating.of_diff(gate, found, compared, new, unsure)
        title = judged.headline("rai diff") if judged else ""
        reported.concluded(title, diff_blocks.blocks(found), judged)
        if as_json:
            facts = {"gate": judged} if judged else {}
            common.print_json(found, **facts)
        else:
            blocks(diff_blocks.blocks(found, everything=everything))
        if judged:
            raise typer.Exit(gating.print_outcome(judged))


def _judgeable(run: RunRecord) -> None:
    """Refuse to judge a run that failed, or goes on: it lacks figures."""
    reason = run.verdict.reason if run.verdict else None
    if reason is not Reason.DONE:
        how = reason.value.replace("_", " ") if reason else run.state.value
        raise UsageError(
            f"the gate cannot judge run {run.id}, which is not done: {how}"
        )


def _named(
    run: str | None, other: str | None, baseline: str | None
) -> tuple[RunPaths, RunPaths]:
    """Return the folders of the earlier and the later run.

    Raises:
        UsageError: a word names no run, there is no run before, or both are one.
    """
    if baseline is not None and other is not None:
        text = "three runs are given: --baseline names the earlier one, so leave out A"
        raise UsageError(text)
    if other is not None:
        run, baseline = other, run
    home = common.home()
    later = places.find(home, run) if run is not None else latest(home, ended=True)
    copies.refresh([later])
    if baseline is not None:
        earlier = places.find(home, baseline)
        copies.refresh([earlier])
    else:
        new = places.record_of(later)
        earlier = before(home, new)
        if places.record_of(earlier).created_at > new.created_at:
            earlier, later = later, earlier  # of a bench, the first side was named
    if earlier == later:
        raise UsageError(f"both are run {later.id}; name two runs")
    return earlier, later
