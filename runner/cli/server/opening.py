"""What the commands of a server share: its folder, its store, and the audit log."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.core import Problem
from runner.core.errors import UsageError

if TYPE_CHECKING:
    from runner.database.base import Store
    from runner.server.paths import ServerFolder

EXTRA = ("alembic", "cryptography", "sqlalchemy", "starlette", "uvicorn")

State = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="The server's folder. [env var: RAI_SERVER_STATE]"
    ),
]
Jobs = Annotated[
    Path | None,
    typer.Option(
        metavar="SOCKET", help="Where the job host listens.  [default: as served]"
    ),
]


def need_extra() -> None:
    """Refuse to go on without what the extra `server` installs."""
    from importlib.util import find_spec

    if absent := [name for name in EXTRA if find_spec(name) is None]:
        text = f"a server needs {', '.join(absent)}"
        raise UsageError(Problem(text, hint="in rai's clone: pip install '.[server]'"))


def folder(state: Path | None) -> ServerFolder:
    """Return the folder of a server that was started before.

    Raises:
        UsageError: there is none, or another user's.
    """
    from runner.server import paths

    need_extra()
    found = paths.state(state, os.environ)
    try:
        there = found.rules.exists()
    except PermissionError as error:
        text = f"{found.root} is closed to this user"
        hint = "be the user of the server, or root"
        raise UsageError(Problem(text, hint=hint)) from error
    if not there:
        text = f"there is no server in {found.root}"
        hint = "`rai server serve` makes one; --state names another folder"
        raise UsageError(Problem(text, hint=hint))
    return found


@contextmanager
def opened(state: Path | None) -> Iterator[tuple[ServerFolder, Store]]:
    """Open the store of a server, which may be serving."""
    need_extra()
    from runner.database.opening import open_store
    from runner.server import reached

    found = folder(state)
    store = open_store(reached.database_url(found, os.environ))
    try:
        yield found, store
    finally:
        store.close()


def note(store: Store, act: str, about: str = "") -> None:
    """Keep an act of staff, by the user of this machine who asked for it."""
    from runner import machine
    from runner.database.base import AuditEntry

    who = machine.user()
    if (by := os.environ.get("SUDO_USER")) and who == "root":
        who = f"root ({by})"
    store.audit(AuditEntry(time.time(), f"unix:{who}", act, about))
