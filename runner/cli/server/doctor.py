"""`rai server doctor`."""

from __future__ import annotations

import os

import typer

from runner import report
from runner.cli import common
from runner.cli.server import opening
from runner.terminal.layout import blocks


def doctor(
    state: opening.State = None,
    as_json: common.JsonFlag = False,
) -> None:
    """Check a server: its store, what can run, who can reach what, and what ends soon.

    Exits with 1 if something keeps it from serving.
    """
    from runner.server import checkup

    found = checkup.examine(opening.folder(state), os.environ)
    if as_json:
        common.print_json(found)
    else:
        rows = tuple((f.subject, f.state.value, f.text, f.advice) for f in found)
        heads = ("what", "state", "finding", "what to do")
        blocks([report.Table("", heads, rows)])
    if not checkup.well(found):
        raise typer.Exit(1)
