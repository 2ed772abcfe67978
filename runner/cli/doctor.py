"""`rai doctor`."""

from __future__ import annotations

import os

import typer

from runner.cli import common


def doctor(as_json: common.JsonFlag = False) -> None:
    """Check what this machine can run, and how."""
    from runner import doctor as findings
    from runner import report
    from runner.core import Reason, record
    from runner.terminal.tables import blocks

    settings = common.settings()
    found = findings.examine(settings.home, settings.data_dir, dict(os.environ))
    if as_json:
        common.print_json(record.plain(found))
    else:
        rows = tuple((f.subject, f.state.value, f.text, f.advice) for f in found)
        heads = ("what", "state", "finding", "what to do")
        blocks([report.Table("", heads, rows)])
    if not findings.can_run(found):
        raise typer.Exit(Reason.NO_ENGINE.exit_code)
