"""`rai server people`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from runner.cli import common
from runner.cli.server import opening
from runner.cli.server.revoke import end, found
from runner.core import record
from runner.core.errors import UsageError
from runner.report import Table, ago
from runner.terminal.layout import blocks
from runner.terminal.streams import say

if TYPE_CHECKING:
    from runner.server.database import Store
    from runner.server.database.accounts import PersonRow, TokenRow


def people(
    team: Annotated[
        str, typer.Option(metavar="NAME", help="Only the people of this team.")
    ] = "",
    move: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="PERSON TEAM", help="Move a person, with their logins, to a team."
        ),
    ] = None,
    remove: Annotated[
        str | None,
        typer.Option(
            metavar="PERSON", help="Remove a person; ends their logins and runs."
        ),
    ] = None,
    state: opening.State = None,
    as_json: common.JsonFlag = False,
) -> None:
    """List who may use the server, and their tokens, which `revoke` takes.

    PERSON is NAME or TEAM/NAME.
    """
    if move and remove:
        raise UsageError("--move and --remove are not for one call")
    with opening.opened(state) as (_, store):
        if move:
            say(_moved(store, *move, team))
            return
        if remove:
            say(_removed(store, remove, team))
            return
        known = [one for one in store.people() if team in ("", one.team)]
        tokens = store.tokens(team)
    if as_json:
        common.print_json([_plain(one, tokens) for one in known])
    elif not known:
        say("No people: rai server invite")
    else:
        blocks([_people(known), *([_tokens(tokens)] if tokens else [])])


def _moved(store: Store, name: str, to: str, team: str) -> str:
    of, person = _person(store, name, team)
    store.move_person(of, person, to)
    opening.note(store, "move", f"{of}/{person} to {to}")
    return f"{person} is in {to} now; earlier runs stay with {of}"


def _removed(store: Store, name: str, team: str) -> str:
    of, person = _person(store, name, team)
    text, _ = end(store, [(of, person)], store.tokens(of, person))
    store.remove_person(of, person)
    opening.note(store, "remove", f"{of}/{person}")
    return f"{of}/{person} removed. {text}"


def _person(store: Store, name: str, team: str) -> tuple[str, str]:
    people, _ = found(store, [name], team)
    if not people:
        raise UsageError(f"{name} is a token, and no person")
    return people[0]


def _plain(one: PersonRow, tokens: list[TokenRow]) -> dict[str, Any]:
    own = [row for row in tokens if (row.team, row.person) == (one.team, one.person)]
    return {**record.plain(one), "token_list": own}


def _people(known: list[PersonRow]) -> Table:
    heads = ("team", "person", "role", "tokens", "last used")
    rows = tuple(
        (one.team, one.person, one.role, str(one.tokens), _when(one.last_used))
        for one in known
    )
    return Table("", heads, rows, frozenset({3}))


def _tokens(listed: list[TokenRow]) -> Table:
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
    return "never" if at is None else ago(time.time() - at)
