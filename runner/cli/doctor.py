"""`rai doctor`, and what its --fix offers, each after a question."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from runner import engines
from runner.cli import common
from runner.core import ImagePlan, Reason, Stream
from runner.core.errors import Cancel, RaiError, UsageError
from runner.core.events import Output
from runner.engines import doctor as findings
from runner.engines import remedies
from runner.engines.base import WithResult
from runner.engines.doctor import Finding
from runner.engines.remedies import Remedy
from runner.execution import prepare
from runner.execution.project import folder_project, image_source
from runner.report.blocks import Table
from runner.spec import images
from runner.store.settings import Settings
from runner.system import process
from runner.terminal.layout import blocks
from runner.terminal.streams import say

MOST_S = 3600.0
LAST_LINES = 12
MOST_SHOWN_BYTES = 1 << 14


def doctor(
    as_json: common.JsonFlag = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="Offer to do what rai can; ask for each.")
    ] = False,
    yes: Annotated[
        bool,
        typer.Option("--yes", "-y", help="Do all of it unasked, but nothing as root."),
    ] = False,
) -> None:
    """Check what this machine can run, and how.

    Without a terminal and without --yes, --fix only lists what it would do.
    """
    if as_json and fix:
        raise UsageError("--fix asks questions; leave out --json")
    if yes and not fix:
        raise UsageError("--yes answers the questions of --fix; add it")
    settings = common.settings()
    found = findings.examine(settings.home, settings.data_dir)
    if as_json:
        common.print_json(found)
    else:
        blocks([table(found)])
        say(f"\n{findings.conclusion(found)}")
    if fix:
        plan = image(settings)
        needs = remedies.look(found, settings.home, Path(), plan, os.environ)
        say()
        if not run_remedies(remedies.remedies(needs), yes=yes):
            raise typer.Exit(1)
    if not findings.working(found):
        raise typer.Exit(Reason.NO_ENGINE.exit_code)


def table(found: Sequence[Finding]) -> Table:
    """Return findings about a machine or a server as a table."""
    rows = tuple((f.subject, f.state.value, f.text, f.advice) for f in found)
    return Table("", ("what", "state", "finding", "what to do"), rows)


def image(settings: Settings) -> ImagePlan | None:
    """Return how a run of the project here gets its image, None if it needs none."""
    try:
        request = prepare.prepare(Path()).request
        store = engines.store(settings.engine, request.spec)
        spec = request.spec.built_for(gpu=False)
        project, spec = image_source(folder_project(request.project, settings), spec)
        return images.plan(spec, store.image_facts(project, spec))
    except RaiError:
        return None


def run_remedies(found: Sequence[Remedy], *, yes: bool) -> bool:
    """Ask for each remedy, and run it; return whether all that were run succeeded.

    Without a terminal and without ``yes`` they are only listed. What needs root is run
    only by root, and never without having asked.
    """
    if not found:
        say("Nothing to fix.")
    asks = sys.stdin.isatty() and sys.stderr.isatty()
    is_root = os.geteuid() == 0
    went = True
    for remedy in found:
        allowed = is_root and asks and not yes if remedy.root else yes or asks
        sudo = "sudo " if remedy.root and not is_root else ""
        say(f"To {remedy.what}:\n    {sudo}{remedy.line}", now=True)
        if allowed and (yes or typer.confirm("Do it?", err=True)):
            went = _run(remedy) and went
    return went


def _run(remedy: Remedy) -> bool:
    ends = dict.fromkeys(Stream, b"")
    running = WithResult(
        process.stream(
            ["/bin/sh", "-c", remedy.line],
            timeout_s=MOST_S,
            cancel=Cancel(),
            room=process.room(sys.maxsize),
        )
    )
    for event in running:
        if isinstance(event, Output):
            end_of = ends[event.stream] + event.data
            ends[event.stream] = end_of[-MOST_SHOWN_BYTES:]
    if running.result.exit_code == 0:
        say("Done.")
        return True
    said = ends[Stream.STDERR] or ends[Stream.STDOUT]
    for line in said.decode(errors="replace").splitlines()[-LAST_LINES:]:
        say(f"    {line}", to_stderr=True)
    say(f"It failed, with exit status {running.result.exit_code}.", to_stderr=True)
    return False
