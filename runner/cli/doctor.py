"""`rai doctor`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli import common
from runner.terminal.streams import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.doctor import Finding
    from runner.store.settings import Settings


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
    from runner import doctor as findings
    from runner import report
    from runner.core import Reason, record
    from runner.core.errors import UsageError
    from runner.terminal.tables import blocks

    if as_json and fix:
        raise UsageError("--fix asks questions; leave out --json")
    if yes and not fix:
        raise UsageError("--yes answers the questions of --fix; add it")
    settings = common.settings()
    found = findings.examine(settings.home, settings.data_dir)
    if as_json:
        common.print_json(record.plain(found))
    else:
        rows = tuple((f.subject, f.state.value, f.text, f.advice) for f in found)
        heads = ("what", "state", "finding", "what to do")
        blocks([report.Table("", heads, rows)])
        say(f"\n{findings.conclusion(found)}")
    if fix and not _fixed(found, settings, yes=yes):
        raise typer.Exit(1)
    if not findings.working(found):
        raise typer.Exit(Reason.NO_ENGINE.exit_code)


def _fixed(found: Sequence[Finding], settings: Settings, *, yes: bool) -> bool:
    from runner.cli import fixing
    from runner.doctor.remedies import look, remedies

    plan = fixing.image(settings)
    facts = look(found, settings.home, Path(), plan, os.environ)
    say()
    return fixing.carry_out(remedies(facts), yes=yes)
