"""`rai whoami`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.cli import common

if TYPE_CHECKING:
    from runner.wire.accounts import Me


def whoami(on: common.On = None, as_json: common.JsonFlag = False) -> None:
    """Show who you are at the server that runs go to, and what it allows you."""
    from runner.core import record
    from runner.remote.api import ServerClient
    from runner.report import Pairs
    from runner.terminal.tables import blocks

    entry = common.server(on)
    with ServerClient(entry) as client:
        me = client.me()
    if as_json:
        common.print_json({"server": entry.url, **record.plain(me)})
    else:
        blocks([Pairs((("server", entry.url), *_rows(me)))])


def _rows(me: Me) -> list[tuple[str, str]]:
    """Return what is said of a person; an absent bound is left out."""
    import time

    from runner.remote import words
    from runner.remote.problems import moment
    from runner.report import size

    now, limits = time.time(), me.limits
    rows = [
        *(("person", me.person), ("team", me.team), ("role", me.role)),
        ("token", f"valid {words.validity(me.expires_at, now)}"),
    ]
    if limits.left_today is not None:
        again = limits.resets_at
        more = f"; more {moment(again, now)}" if again is not None else ""
        rows.append(("today", f"{words.runs(limits.left_today)} left{more}"))
    if limits.at_once is not None:
        rows.append(("at once", words.runs(limits.at_once)))
    if limits.upload_bytes is not None:
        rows.append(("a project", f"at most {size(limits.upload_bytes)}, packed"))
    of = f" of {size(limits.disk_bytes)}" if limits.disk_bytes is not None else ""
    rows.append(("disk", f"{size(limits.disk_used)}{of} used"))
    forbidden = [
        name
        for name, may in (("network", limits.network), ("images", limits.own_images))
        if not may
    ]
    if "network" in forbidden:
        rows.append(("network", "runs have none"))
    if "images" in forbidden:
        rows.append(("images", "those that the server names only"))
    return rows
