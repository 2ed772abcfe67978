"""What the commands of a server share: its folder, its store, and the audit log."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ParamSpec, TypeVar

import typer

from runner.cli import common
from runner.core import Problem
from runner.core.addresses import SlurmTarget, slurm_target
from runner.core.errors import UsageError
from runner.system import machine

if TYPE_CHECKING:
    from runner.server.database import Store
    from runner.server.grading import Grading
    from runner.server.paths import ServerFolder

P = ParamSpec("P")
R = TypeVar("R")

EXTRA = (
    *("alembic", "anyio", "cryptography", "prometheus_client", "sqlalchemy"),
    *("starlette", "uvicorn"),
)
"""The modules of the extra `server`; clients and workers do not need them."""


State = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="The server's folder. [env var: RAI_SERVER_STATE]"
    ),
]


Reason = Annotated[str, typer.Option(metavar="TEXT", help="Why: the team is shown it.")]
MOST_REASON = 500


def with_extra(command: Callable[P, R]) -> Callable[P, R]:
    """Return a command that first looks for what the extra `server` installs.

    It raises UsageError where that is absent.
    """

    @wraps(command)
    def checked(*given: P.args, **options: P.kwargs) -> R:
        if absent := [name for name in EXTRA if find_spec(name) is None]:
            text = f"a server needs {', '.join(absent)}"
            raise UsageError(
                Problem(text, hint="in rai's clone: pip install '.[server]'")
            )
        return command(*given, **options)

    return checked


def target(place: str) -> SlurmTarget | None:
    """Return the partition that ``--place`` names, None for this machine.

    Raises:
        UsageError: it names neither.
    """
    if place and slurm_target(place) is None:
        text = f"--place {place}: expected slurm or slurm:PARTITION"
        raise UsageError(text)
    return slurm_target(place)


def reason(text: str) -> str:
    """Return why staff do something, on one line; raise UsageError without one."""
    if not (found := " ".join(text.split())) or len(found) > MOST_REASON:
        hint = "the audit log keeps it"
        text = f"say why in --reason, in 1 to {MOST_REASON} characters"
        raise UsageError(Problem(text, hint=hint))
    return found


def grading(folder: ServerFolder, store: Store) -> Grading:
    """Return the grading of a server's term."""
    from runner.server import rules
    from runner.server.grading import Grading

    term = rules.read(folder.rules).term
    return Grading(store, common.settings().milestones, term)


def has_store(state: Path | None) -> bool:
    """Whether a server was started here, as far as this user can see."""
    from runner.server import paths

    return os.access(paths.state(state, os.environ).rules, os.F_OK)


def folder(state: Path | None) -> ServerFolder:
    """Return the folder of a server that was started before.

    Raises:
        UsageError: there is none, or another user's.
    """
    from runner.server import paths

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
    from runner.server.database import open_store

    found = folder(state)
    store = open_store(found.database_url(os.environ), upgrade=False)
    try:
        yield found, store
    finally:
        store.close()


def note(store: Store, act: str, about: str = "") -> None:
    """Keep an act of staff, by the user of this machine who asked for it."""
    from runner.server.database.accounts import AuditEntry

    who = machine.user()
    if (by := os.environ.get("SUDO_USER")) and who == "root":
        who = f"root ({by})"
    store.audit(AuditEntry(time.time(), f"unix:{who}", act, about))
