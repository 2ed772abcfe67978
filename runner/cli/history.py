"""`rai history`."""

from __future__ import annotations

from typing import Annotated

import typer

from runner.cli import common, listing


def history(
    number: Annotated[
        int, typer.Option("--number", "-n", min=1, help="How many runs to list.")
    ] = 10,
    as_json: common.JsonFlag = False,
) -> None:
    """List finished runs, newest first."""
    listing.show(active=False, limit=number, as_json=as_json)
