"""`rai ps`."""

from __future__ import annotations

from runner.cli import listing, settings


def ps(as_json: settings.JsonFlag = False) -> None:
    """List the runs that are under way."""
    listing.show(active=True, limit=None, as_json=as_json)
