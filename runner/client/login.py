"""Log in to a server, once its certificate is trusted, and out again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from runner.client import profile
from runner.client.api import ServerClient
from runner.client.connection import served_fingerprint
from runner.client.problems import (
    LoginNeededError,
    NoServerError,
    UntrustedServerError,
    shown,
)
from runner.client.profile import Logins, ProfileEntry
from runner.core import Problem
from runner.core.errors import RaiError, UsageError
from runner.core.wire import Me

Confirm = Callable[[str], bool]
"""Asks whether a fingerprint is the right one."""

MOST_NAME = 100


def trusted(url: str, known: str, given: str, confirm: Confirm | None) -> str:
    """Return the fingerprint that a server is pinned to, "" if the system trusts it.

    ``known`` is the fingerprint of an earlier login, ``given`` the command line's; with
    neither ``confirm`` is asked, None where nobody can be.

    Raises:
        UntrustedServerError: it has another one, or nobody can confirm it.
        NoServerError: the answer was no.
    """
    if given and not url.startswith("https://"):
        text = f"{url} has no certificate"
        raise UsageError(Problem(text, hint="leave --fingerprint out"))
    pin = given or known
    try:
        _greet(url, pin)
    except UntrustedServerError as error:
        if pin:
            raise
        pin = served_fingerprint(url)
        if confirm is None:
            text = f"{error.problems[0].message}; its fingerprint is {pin}"
            hint = (
                "there is no terminal to confirm it in: if whoever runs the server"
                " names the same one, give it with --fingerprint"
            )
            raise UntrustedServerError(Problem(text, hint=hint)) from error
        if not confirm(pin):
            raise NoServerError("not logged in: nothing was sent") from error
        _greet(url, pin)
    return pin


def log_in(url: str, pin: str, code: str, device: str, file: Path) -> tuple[Me, Logins]:
    """Exchange a code for a token, and keep it; revoke an earlier one of this file.

    Returns who one is there, and what logins there are now.

    Raises:
        RaiError: the server refuses the code.
    """
    before = profile.read(file).servers.get(url)
    with ServerClient(ProfileEntry(url, fingerprint=pin)) as client:
        answer = client.login(code, device)
    me = answer.me
    names = (shown(me.team)[:MOST_NAME], shown(me.person)[:MOST_NAME])
    entry = ProfileEntry(url, answer.token, pin, *names)
    logins = profile.keep(entry, file)
    if before is not None and before.token:
        with suppress(RaiError), ServerClient(before) as client:
            client.revoke()
    return me, logins


def log_out(entry: ProfileEntry, file: Path) -> RaiError | None:
    """Revoke a token and forget it; return why it could not be revoked, if so."""
    failed = None
    try:
        with ServerClient(entry) as client:
            client.revoke()
    except LoginNeededError:
        pass  # it had ended before
    except RaiError as error:
        failed = error
    profile.forget(entry.url, file)
    return failed


def _greet(url: str, pin: str) -> None:
    with ServerClient(ProfileEntry(url, fingerprint=pin)) as client:
        client.facts()
