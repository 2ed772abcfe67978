"""`rai ps`."""

from __future__ import annotations

from runner.cli import common, listing


def ps(as_json: common.JsonFlag = False) -> None:
    """List running runs."""
    listing.running(as_json=as_json)
