"""Rows for tests of a store."""

from __future__ import annotations

from runner.database.base import Invitation, QueueRow
from runner.database.store import Store
from runner.wire.accounts import Scope

NOW = 1_800_000_000.0
DAY_S = 86_400.0
RUN_ONLY = (Scope.RUN,)


def run(name: str = "0123456789", team: str = "red", **changes: object) -> QueueRow:
    """Return a run that waits, with all that a request has."""
    fields: dict[str, object] = {
        "id": name,
        "team": team,
        "person": "ada",
        "role": "student",
        "digest": "d" * 64,
        "sha256": "5" * 64,
        "parcel": b'{"project":"/home/ada/net"}',
        "queued_at": NOW,
        "project": "net",
        "engine": "local",
        "secrets": '{"KEY":"hunter2"}',
    }
    return QueueRow(**(fields | changes))  # type: ignore[arg-type]


def token(store: Store, team: str = "red", person: str = "ada", role: str = "") -> str:
    """Invite somebody, and log in."""
    issued = store.invite([Invitation(team, person, role)], NOW, DAY_S)
    made = store.redeem(issued[0].code, "laptop", NOW, None, RUN_ONLY)
    assert made is not None
    return made[0]
