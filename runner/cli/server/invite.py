"""`rai server invite`."""

from __future__ import annotations

import csv
import io
import os
import sys
import time
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner import report
from runner.cli import common
from runner.cli.server import opening
from runner.core import Problem
from runner.core.errors import UsageError
from runner.core.screen import cell
from runner.system import files
from runner.terminal.layout import blocks
from runner.terminal.streams import say

if TYPE_CHECKING:
    from runner.server.database.accounts import Invitation, IssuedCode
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
        common.print_json(_plain(issued, at))
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
    blocks([report.Table("", ("team", "person", "code"), rows)])
    until = report.date(min(one.expires_at for one in issued))
    say()
    say(f"Each code is good once, until {until}. Its person enters it at")
    say(f"    rai login {at.url if at else 'URL'}")
    if at and not at.for_others:
        say(CLOSED)
    if at and at.fingerprint:
        say("and compares the fingerprint that is shown there with")
        say(f"    {at.fingerprint}")


def _plain(issued: Sequence[IssuedCode], at: ReachedAt | None) -> object:
    return {
        "url": at.url if at else None,
        "fingerprint": (at.fingerprint if at else "") or None,
        "codes": issued,
    }
