"""`rai server audit`."""

from __future__ import annotations

from typing import Annotated

import typer

from runner.cli import common
from runner.cli.server import opening
from runner.report import Table, date
from runner.terminal.layout import blocks
from runner.terminal.streams import say


def audit(
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=100_000, help="The last N.")
    ] = 100,
    state: opening.State = None,
    as_json: common.JsonFlag = False,
) -> None:
    """List what staff did, the latest first."""
    with opening.opened(state) as (_, store):
        found = store.audited(limit)
    if as_json:
        common.print_json(found)
    elif not found:
        say("Nothing yet")
    else:
        rows = tuple((date(one.at), one.who, one.act, one.about) for one in found)
        blocks([Table("", ("when", "who", "act", "about"), rows)])
