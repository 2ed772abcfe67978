"""Stores in which there is nothing, without migrations, and rows for them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from msgspec.structs import replace
from sqlalchemy import event

from runner.core.wire import Scope
from runner.server.database import Store, open_store
from runner.server.database.accounts import Identity, Invitation
from runner.server.scheduling import QueueRow

NOW = 1_800_000_000.0
DAY_S = 86_400.0
RUN_ONLY = (Scope.RUN,)
AnyStore = TypeVar("AnyStore", bound=Store)


@cache
def empty_file() -> bytes:
    """Return the file of a store in which there is nothing."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "store.sqlite")
        open_store(f"sqlite:///{file}").close()
        return file.read_bytes()


def new_store(folder: Path, kind: type[AnyStore]) -> AnyStore:
    """Make ``store.sqlite`` in a folder, and open it; it waits for no disk."""
    file = folder / "store.sqlite"
    file.write_bytes(empty_file())
    store = kind(f"sqlite:///{file}")
    unsafe = "PRAGMA synchronous=OFF"
    event.listen(store.engine, "connect", lambda link, _: link.execute(unsafe))
    return store


def run(name: str = "0123456789", team: str = "red", **changes: object) -> QueueRow:
    """Return a run that waits, with all that a request has."""
    known = (name, team, "ada", "student", "d" * 64, "5" * 64, NOW, "net")
    large = {"parcel": b'{"project":"/home/ada/net"}', "secrets": '{"KEY":"hunter2"}'}
    return replace(QueueRow(*known), **(large | changes))


def code(store: Store, team: str = "red", person: str = "ada", role: str = "") -> str:
    """Invite somebody; return the code."""
    (one,) = store.invite([Invitation(team, person, role)], NOW, DAY_S)
    return one.code


def token(store: Store, team: str = "red", person: str = "ada", role: str = "") -> str:
    """Invite somebody, and log in."""
    return made(store, code(store, team, person, role))[0]


def made(
    store: Store,
    code: str,
    valid_s: float | None = None,
    scopes: tuple[Scope, ...] = RUN_ONLY,
) -> tuple[str, Identity]:
    """Log in by a code; return the token, and whose it is."""
    found = store.redeem(code, "laptop", NOW, valid_s, scopes)
    assert found is not None
    return found
