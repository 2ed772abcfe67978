"""`rai server revoke`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli.server import opening
from runner.core import Problem
from runner.core.errors import UsageError
from runner.terminal.streams import say

if TYPE_CHECKING:
    from runner.database.base import Store, TokenRow


def revoke(
    who: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PERSON|TOKEN...",
            help="A person, as NAME or TEAM/NAME, or a token's id.",
        ),
    ] = None,
    team: Annotated[
        str, typer.Option(metavar="NAME", help="Everybody of a team, or who is named.")
    ] = "",
    state: opening.State = None,
) -> None:
    """Make tokens invalid, within seconds; nothing is removed and no run is ended.

    A person comes back by another invitation.
    """
    if not who and not team:
        raise UsageError("name people or tokens, or a team by --team")
    with opening.opened(state) as (_, store):
        found = _found(store, who or [], team)
        now = time.time()
        ended = [one for one in found if store.revoke(one.id, now)]
        for person in dict.fromkeys((one.team, one.person) for one in ended):
            opening.note(store, "revoke", "/".join(person))
    tokens = "1 token" if len(ended) == 1 else f"{len(ended)} tokens"
    say(f"{tokens} revoked" if ended else "Nothing to revoke: no token is valid")


def _found(store: Store, who: list[str], team: str) -> list[TokenRow]:
    """Return the tokens that are named.

    Raises:
        UsageError: a name is nobody's, or that of people of several teams.
    """
    people, tokens = store.people(), store.tokens(team)
    if team and team not in {one.team for one in people}:
        raise UsageError(Problem(f"there is no team {team!r}", hint=_LIST))
    if not who:
        return tokens
    found: list[TokenRow] = []
    problems: list[Problem] = []
    for name in who:
        given_team, slash, person = name.rpartition("/")
        teams = {
            one.team
            for one in people
            if one.person == (person if slash else name)
            and one.team in ((given_team,) if slash else (team or one.team,))
        }
        if len(teams) > 1:
            hint = f"name one as {sorted(teams)[0]}/{name}"
            text = f"{name} is in the teams {', '.join(sorted(teams))}"
            problems.append(Problem(text, hint=hint))
        elif teams:
            mine = (teams.pop(), person if slash else name)
            found += [one for one in tokens if (one.team, one.person) == mine]
        elif own := [one for one in tokens if one.id == _token_id(name)]:
            found += own
        else:
            problems.append(Problem(f"{name} is no person or token", hint=_LIST))
    if problems:
        raise UsageError(*problems)
    return found


_LIST = "`rai server people` lists all, with --tokens their tokens"


def _token_id(name: str) -> str:
    """Return the id in a token, or what was given; the secret is not looked at."""
    return name.split("_")[1] if name.startswith("rai_") and "_" in name[4:] else name
