"""`rai server people`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from runner.cli import common
from runner.cli.server import opening
from runner.terminal.streams import say

if TYPE_CHECKING:
    from runner.database.base import PersonRow, TokenRow
    from runner.report import Table


def people(
    team: Annotated[
        str, typer.Option(metavar="NAME", help="Only the people of this team.")
    ] = "",
    state: opening.State = None,
    as_json: common.JsonFlag = False,
) -> None:
    """List who may use the server, and their tokens, which `revoke` takes."""
    from runner.terminal.tables import blocks

    with opening.opened(state) as (_, store):
        known = [one for one in store.people() if team in ("", one.team)]
        tokens = store.tokens(team)
    if as_json:
        common.print_json([_plain(one, tokens) for one in known])
    elif not known:
        say("No people: rai server invite")
    else:
        blocks([_people(known), *([_tokens(tokens)] if tokens else [])])


def _plain(one: PersonRow, tokens: list[TokenRow]) -> dict[str, Any]:
    from runner.core import record

    own = [row for row in tokens if (row.team, row.person) == (one.team, one.person)]
    return {**record.plain(one), "token_list": record.plain(own)}


def _people(known: list[PersonRow]) -> Table:
    from runner.report import Table

    heads = ("team", "person", "role", "tokens", "last used")
    rows = tuple(
        (one.team, one.person, one.role, str(one.tokens), _when(one.last_used))
        for one in known
    )
    return Table("", heads, rows, frozenset({3}))


def _tokens(listed: list[TokenRow]) -> Table:
    from runner.report import Table

    now = time.time()
    heads = ("token", "team", "person", "device", "made", "last used", "state")
    rows = tuple(
        (
            *(one.id, one.team, one.person, one.device),
            *(_when(one.created_at), _when(one.last_used), _state(one, now)),
        )
        for one in listed
    )
    return Table("Tokens", heads, rows)


def _state(token: TokenRow, now: float) -> str:
    if token.revoked_at is not None:
        return "revoked"
    if token.expires_at is not None and token.expires_at <= now:
        return "expired"
    return "valid"


def _when(at: float | None) -> str:
    from runner.report import ago

    return "never" if at is None else ago(time.time() - at)
