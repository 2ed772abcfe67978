"""Who may use a server: `rai server invite`, `people`, `revoke`."""

from __future__ import annotations

import csv
import io
import os
import sys
import time
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from runner.cli import common
from runner.cli.server import opening
from runner.core import Problem, record
from runner.core.errors import UsageError
from runner.core.screen import cell
from runner.report import phrases
from runner.report.blocks import Table
from runner.report.phrases import ago
from runner.system import files
from runner.terminal.layout import blocks
from runner.terminal.streams import say

if TYPE_CHECKING:
    from runner.server.database import Store
    from runner.server.database.accounts import (
        Invitation,
        IssuedCode,
        PersonRow,
        TokenRow,
    )
    from runner.server.paths import ReachedAt


STDIN = "-"


def invite(
    who: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|PERSON...",
            help="A CSV file `team,person[,role]`, - for stdin; with --team, people.",
        ),
    ],
    team: Annotated[
        str | None, typer.Option(metavar="NAME", help="Invite people to this team.")
    ] = None,
    role: Annotated[
        str, typer.Option(metavar="NAME", help="With --team: the team's role.")
    ] = "",
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", metavar="FILE", help="Write the codes into a new CSV file; show none."
        ),
    ] = None,
    state: opening.State = None,
    as_json: common.JsonFlag = False,
) -> None:
    """Make one-time codes with which people log in.

    They are shown once, or written into a file for a mail merge. A person's earlier
    code that was not used is void.
    """
    from runner.server import rules

    with opening.opened(state) as (folder, store):
        known = rules.read(folder.rules)
        invitations = _invitations(who, team, role, known.roles)
        now, at = time.time(), folder.reached_at()
        if output is not None:
            _check_new(output)
        issued = store.invite(invitations, now, known.code_valid_s)
        opening.note(store, "invite", _about(invitations))
    if output is not None:
        try:
            _write(output, issued, at)
        except OSError as error:
            hint = "invite them again: that makes these codes void"
            raise UsageError(Problem(files.problem(error).message, hint=hint)) from None
        if as_json:
            common.print_json({"file": str(output)})
        else:
            say(f"Wrote {len(issued)} codes into {output}, which you alone can read.")
    elif as_json:
        pin = at.fingerprint if at else ""
        common.print_json(
            {"url": at.url if at else None, "fingerprint": pin or None, "codes": issued}
        )
    else:
        _show(issued, at)


def _check_new(path: Path) -> None:
    """Raise UsageError for a file that is there already, or cannot be made."""
    common.check_output(path, "-o")
    if os.path.lexists(path):
        hint = "nothing is overwritten: name another file"
        raise UsageError(Problem(f"{path} is there already", hint=hint))


def _write(path: Path, issued: Sequence[IssuedCode], at: ReachedAt | None) -> None:
    """Write the codes for their owner alone; raise OSError if that fails."""
    text = io.StringIO(newline="")
    rows = csv.writer(text)
    rows.writerow(("team", "person", "code", "url", "fingerprint", "expires"))
    url, fingerprint = (at.url, at.fingerprint) if at else ("", "")
    for one in issued:
        until = datetime.fromtimestamp(one.expires_at, UTC)
        cells = (one.team, one.person, one.code, url, fingerprint)
        rows.writerow(map(cell, (*cells, until.isoformat(timespec="seconds"))))
    files.write(path, text.getvalue().encode(), private=True)


def _invitations(
    who: Sequence[str], team: str | None, role: str, roles: Collection[str]
) -> list[Invitation]:
    from runner.server import rules
    from runner.server.database.accounts import Invitation

    if team is not None:
        found = [Invitation(team, person, role) for person in who]
        rules.check(found, roles, "--team")
        return found
    if role:
        raise UsageError("--role is for --team; in a file it is the third column")
    if len(who) != 1:
        raise UsageError("name one file, or a team by --team")
    (name,) = who
    if name == STDIN:
        data = sys.stdin.buffer.read(rules.MOST_BYTES + 1)
        return rules.parse_teams(data, "stdin", roles)
    try:
        data = files.read(Path(name), rules.MOST_BYTES)
    except OSError as error:
        raise UsageError(files.problem(error)) from error
    return rules.parse_teams(data, name, roles)


def _about(invitations: Sequence[Invitation]) -> str:
    teams = dict.fromkeys(one.team for one in invitations)
    people = "1 person" if len(invitations) == 1 else f"{len(invitations)} people"
    return f"{people} of {', '.join(teams)}"[:500]


def _show(issued: Sequence[IssuedCode], at: ReachedAt | None) -> None:
    from runner.server.paths import CLOSED

    rows = tuple((one.team, one.person, one.code) for one in issued)
    blocks([Table("", ("team", "person", "code"), rows)])
    until = phrases.date(min(one.expires_at for one in issued))
    say()
    say(f"Each code is good once, until {until}. Its person enters it at")
    say(f"    rai login {at.url if at else 'URL'}")
    if at and not at.for_others:
        say(CLOSED)
    if at and at.fingerprint:
        say("and compares the fingerprint that is shown there with")
        say(f"    {at.fingerprint}")


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
    text, _ = end_access(store, [(of, person)], store.tokens(of, person))
    store.remove_person(of, person)
    opening.note(store, "remove", f"{of}/{person}")
    return f"{of}/{person} removed. {text}"


def _person(store: Store, name: str, team: str) -> tuple[str, str]:
    people, _ = find(store, [name], team)
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
        text, owners = end_access(store, *find(store, who or [], team))
        for person in owners:
            opening.note(store, "revoke", "/".join(person))
    say(text)


def end_access(
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


def find(
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
