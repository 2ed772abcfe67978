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
    from runner.server.database import Store
    from runner.server.database.accounts import TokenRow


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
    """End people's logins, unused codes and runs, or single tokens.

    It takes seconds. A token's runs go on. A person comes back by another invitation.
    """
    if not who and not team:
        raise UsageError("name people or tokens, or a team by --team")
    with opening.opened(state) as (_, store):
        text, owners = end(store, *found(store, who or [], team))
        for person in owners:
            opening.note(store, "revoke", "/".join(person))
    say(text)


def end(
    store: Store, people: list[tuple[str, str]], tokens: list[TokenRow]
) -> tuple[str, list[tuple[str, str]]]:
    """End tokens, and the codes and runs of people; return what, and of whom."""
    now = time.time()
    ended = [one for one in tokens if store.revoke(one.id, now)]
    voided = [one for one in people if store.void_code(*one)]
    runs = [
        row
        for row in store.unfinished()
        if (row.team, row.person) in people and not row.cancelled
    ]
    for row in runs:
        why = f"staff ended the access of {row.person}"
        store.ask_cancel(row.id, now, why)
    owners = [(one.team, one.person) for one in ended] + voided
    owners += [(row.team, row.person) for row in runs]
    counts = [(len(ended), "token"), (len(voided), "unused code"), (len(runs), "run")]
    every = ", ".join(f"{n} {what}{'s' * (n > 1)}" for n, what in counts if n)
    text = f"Ended: {every}" if every else "Nothing to end: no token, code or run"
    return text, list(dict.fromkeys(owners))


def found(
    store: Store, who: list[str], team: str
) -> tuple[list[tuple[str, str]], list[TokenRow]]:
    """Return the people that are named, as team and name, and the tokens to end.

    Raises:
        UsageError: a name is nobody's, or that of people of several teams.
    """
    known = [(one.team, one.person) for one in store.people()]
    tokens = store.tokens(team)
    if team and team not in {of for of, _ in known}:
        raise UsageError(Problem(f"there is no team {team!r}", hint=_LIST))
    if not who:
        return [one for one in known if one[0] == team], tokens
    people: list[tuple[str, str]] = []
    listed: list[TokenRow] = []
    problems: list[Problem] = []
    for name in who:
        given_team, slash, person = name.rpartition("/")
        within = given_team if slash else team
        named = [one for one in known if one[1] == person and within in ("", one[0])]
        if len(named) > 1:
            hint = f"name one as {named[0][0]}/{person}"
            text = f"{name} is in the teams {', '.join(of for of, _ in named)}"
            problems.append(Problem(text, hint=hint))
        elif named:
            people += named
            listed += [one for one in tokens if (one.team, one.person) == named[0]]
        elif own := [one for one in tokens if one.id == _token_id(name)]:
            listed += own
        else:
            problems.append(Problem(f"{name} is no person or token", hint=_LIST))
    if problems:
        raise UsageError(*problems)
    return people, listed


_LIST = "`rai server people` lists all, and their tokens"


def _token_id(name: str) -> str:
    """Return the id in a token, or what was given; the secret is not looked at."""
    return name.split("_")[1] if name.startswith("rai_") and "_" in name[4:] else name
