"""What a store keeps, as values. Times are seconds since 1970."""

from __future__ import annotations

from msgspec import Struct

from runner.core.ending import Reason
from runner.wire.accounts import Scope
from runner.wire.remote_runs import QueueState

STAFF = "staff"
"""The role of those who may see and end the runs of all teams."""


class Invitation(Struct, frozen=True):
    """One line of teams.csv: a person of a team, with the role of the team's runs."""

    team: str
    person: str
    role: str = ""


class IssuedCode(Struct, frozen=True):
    """A one-time code for a person, which is shown once and kept as its hash."""

    team: str
    person: str
    code: str
    expires_at: float


class Identity(Struct, frozen=True):
    """Whose a token is."""

    token_id: str
    person: str
    team: str
    role: str
    scopes: tuple[Scope, ...]
    expires_at: float | None = None

    @property
    def staff(self) -> bool:
        """Whether it is one of the staff, with a token that is good for that."""
        return self.role == STAFF and Scope.STAFF in self.scopes


class PersonRow(Struct, frozen=True):
    """A person, and when any of their tokens was last used."""

    team: str
    person: str
    role: str
    tokens: int
    last_used: float | None = None


class TokenRow(Struct, frozen=True):
    """A token without what makes it valid: `rai_<id>_<secret>`."""

    id: str
    team: str
    person: str
    scopes: tuple[Scope, ...]
    device: str
    created_at: float
    expires_at: float | None
    last_used: float | None
    revoked_at: float | None


class QueueRow(Struct, frozen=True):
    """A run of the queue.

    ``digest`` is the SHA-256 of its request, by which a repeated request is known, and
    ``sha256`` that of its packed project. ``parcel`` is the parcel as JSON, and
    ``secrets`` has the values that it masks, as JSON; both are empty once the run has
    started or ended. ``attempt`` counts the starts that were tried. ``changed`` grows
    with each change of any run, so that readers can ask for news.
    """

    id: str
    team: str
    person: str
    role: str
    digest: str
    sha256: str
    parcel: bytes
    queued_at: float
    project: str = ""
    engine: str = ""
    gpus: int = 0
    priority: int = 0
    secrets: str = ""
    state: QueueState = QueueState.WAITING
    why: str = ""
    attempt: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    reason: Reason | None = None
    cancelled: bool = False
    bytes: int = 0
    removed: bool = False
    changed: int = 0


class TeamUse(Struct, frozen=True):
    """What a team has: runs that wait and run, runs since a time, and bytes kept."""

    waiting: int = 0
    active: int = 0
    queued_since: int = 0
    oldest_since: float | None = None
    bytes: int = 0


class AuditEntry(Struct, frozen=True):
    """An act of staff, or a change of who may do what."""

    at: float
    who: str
    act: str
    about: str = ""
