"""`rai login URL`, and `rai login --status`."""

from __future__ import annotations

import platform
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from runner.cli import common, suggestions
from runner.client import login as remote
from runner.client import profile
from runner.client.problems import moment, runs, validity
from runner.client.profile import Logins
from runner.core import Problem, addresses
from runner.core.errors import UsageError
from runner.core.quantities import size
from runner.core.wire import Me
from runner.report.blocks import Pairs
from runner.system import files
from runner.terminal.layout import blocks
from runner.terminal.streams import say

MOST_CODE_BYTES = 4096


def login(
    server: Annotated[
        str | None,
        typer.Argument(
            metavar="[URL]",
            help="The server's address. Optional with --status and --another.",
            show_default=False,
            autocompletion=suggestions.servers,
        ),
    ] = None,
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
    status: Annotated[
        bool,
        typer.Option("--status", help="Show who you are there, and what it allows."),
    ] = False,
    another: Annotated[
        bool,
        typer.Option(
            "--another", help="Print a code to log in with on another device."
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print --status or --another as JSON.")
    ] = False,
) -> None:
    """Log in to a server with an invitation code.

    The code is asked for, or read from stdin where there is no terminal. The token that
    it is exchanged for is kept in ~/.rai_profile. After the first login `rai run` runs
    there.
    """
    if status or another:
        (_status if status else _another)(server, as_json=as_json)
        return
    if server is None or as_json:
        text = "--json is for --status and --another"
        text = text if as_json else "no server is named"
        raise UsageError(Problem(text, hint="log in by: rai login URL"))
    url, given = profile.address(server), _pin(fingerprint)
    if url == addresses.HERE:
        raise UsageError("this machine needs no login")
    file = profile.path()
    # A code is good once, so nothing but the server may fail after it is sent.
    named = common.settings().server
    known = profile.to_change(file).servers.get(url)
    terminal = sys.stdin.isatty() and sys.stderr.isatty()
    confirm = _confirmed if terminal else None
    pin = remote.trusted(url, known.fingerprint if known else "", given, confirm)
    me, logins = remote.log_in(url, pin, _code(code_file), platform.node(), file)
    for line in _said(url, me, logins, named):
        say(line)


def _pin(given: str | None) -> str:
    """Return the fingerprint that is given, "" for none.

    Raises:
        UsageError: it is none.
    """
    if given is None:
        return ""
    if (found := addresses.fingerprint(given)) is None:
        raise UsageError(f"--fingerprint {given}: expected SHA256: and 64 digits")
    return found


def _confirmed(found: str) -> bool:
    text = "This system does not trust the server's certificate. Its fingerprint is"
    say(f"{text}\n    {found}", to_stderr=True, now=True)
    return typer.confirm("Does whoever runs the server name the same?", err=True)


def _code(file: Path | None) -> str:
    """Return the code, from a file, a terminal or stdin.

    Raises:
        UsageError: there is none.
    """
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


def _said(url: str, me: Me, logins: Logins, named: str | None) -> list[str]:
    entry, host = logins.servers[url], logins.host
    valid = validity(me.expires_at, time.time())
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


def _status(server: str | None, *, as_json: bool) -> None:
    """Show who the user is at a server, else at that which runs go to."""
    from runner.client.api import ServerClient

    entry = common.server(server)
    with ServerClient(entry) as client:
        me = client.me()
    if as_json:
        common.print_json(me, server=entry.url)
    else:
        blocks([Pairs((("server", entry.url), *_rows(me)))])


def _another(server: str | None, *, as_json: bool) -> None:
    """Show a code for another login of the user, at a server as for --status."""
    from runner.client.api import ServerClient

    entry = common.server(server)
    with ServerClient(entry) as client:
        made = client.another()
    pin = entry.fingerprint
    if as_json:
        common.print_json(made, server=entry.url, fingerprint=pin or None)
        return
    until = moment(made.expires_at, time.time()).removeprefix("at ")
    say(made.code)
    say(f"It is good once, until {until}. On the other device:")
    say(f"    rai login {entry.url}{f' --fingerprint {pin}' if pin else ''}")


def _rows(me: Me) -> list[tuple[str, str]]:
    """Return what is said of a person; an absent bound is left out."""
    now, limits = time.time(), me.limits
    rows = [
        *(("person", me.person), ("team", me.team), ("role", me.role)),
        ("token", f"valid {validity(me.expires_at, now)}"),
    ]
    if limits.left_today is not None:
        again = limits.resets_at
        more = f"; more {moment(again, now)}" if again is not None else ""
        rows.append(("today", f"{runs(limits.left_today)} left{more}"))
    if limits.gpu_left_s is not None:
        rows.append(("GPUs today", f"{limits.gpu_left_s / 60:.0f} min left"))
    if limits.at_once is not None:
        rows.append(("at once", runs(limits.at_once)))
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
