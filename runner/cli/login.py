"""`rai login URL`."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli import common
from runner.terminal.streams import say

if TYPE_CHECKING:
    from runner.remote.login import Login

MOST_CODE_BYTES = 4096


def login(
    server: Annotated[str, typer.Argument(metavar="URL", help="The server's address.")],
    fingerprint: Annotated[
        str | None,
        typer.Option(
            "--fingerprint",
            metavar="SHA256:...",
            help="The fingerprint of its certificate, if it signs its own.",
        ),
    ] = None,
    code_file: Annotated[
        Path | None,
        typer.Option("--code-file", metavar="FILE", help="Read the code from a file."),
    ] = None,
) -> None:
    """Log in at a server with the code of your invitation.

    The code is asked for, or read from stdin where there is no terminal. The token that
    it is exchanged for is kept in ~/.rai_profile. After the first login `rai run` runs
    there.
    """
    from runner.core.errors import UsageError
    from runner.remote import login as remote
    from runner.remote import profile
    from runner.wire import addresses

    url, given = profile.address(server), remote.fingerprint(fingerprint)
    if url == addresses.HERE:
        raise UsageError("this machine needs no login")
    file = profile.path()
    # A code is good once, so nothing but the server may fail after it is sent.
    named = common.settings().server
    known = profile.to_change(file).servers.get(url)
    terminal = sys.stdin.isatty() and sys.stderr.isatty()
    confirm = _confirmed if terminal else None
    pin = remote.trusted(url, known.fingerprint if known else "", given, confirm)
    made = remote.log_in(url, pin, _code(code_file), platform.node(), file)
    for line in _said(made, named):
        say(line)


def _confirmed(found: str) -> bool:
    text = "This system does not trust the server's certificate. Its fingerprint is"
    say(f"{text}\n    {found}", to_stderr=True, now=True)
    return typer.confirm("Does whoever runs the server name the same?", err=True)


def _code(file: Path | None) -> str:
    """Return the code, from a file, a terminal or stdin.

    Raises:
        UsageError: there is none.
    """
    from runner import files
    from runner.core import Problem
    from runner.core.errors import UsageError

    if file is not None:
        code = files.read(file, MOST_CODE_BYTES).decode(errors="replace")
    elif sys.stdin.isatty():
        code = str(typer.prompt("Code", hide_input=True, err=True))
    else:
        code = sys.stdin.readline(MOST_CODE_BYTES)
    if not code.strip():
        text = "there is no code to log in with"
        raise UsageError(Problem(text, hint="it is in your invitation"))
    return code.strip()


def _said(made: Login, named: str | None) -> list[str]:
    import time

    from runner.remote import words

    entry, me, host = made.entry, made.me, made.logins.host
    valid = words.validity(me.expires_at, time.time())
    lines = [
        f"Logged in at {entry.url} as {entry.person}, team {entry.team}.",
        f"The token is valid {valid}.",
    ]
    if named not in (None, entry.url):
        text = (
            f"`rai run --on {entry.url}` runs there; the setting `server` is {named}."
        )
    elif host == entry.url:
        text = "`rai run` runs there now; `rai run --on here` runs on this machine."
    else:
        text = f"`rai run --on {entry.url}` runs there; `rai run` still runs at {host}."
    return [*lines, text]
