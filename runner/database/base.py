"""What a store keeps, as values, and what it is asked, as a protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from runner.core.ending import Reason
from runner.wire.accounts import Scope
from runner.wire.remote_runs import QueueState


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


class UploadRow(Struct, frozen=True):
    """An upload; ``offset`` bytes of ``size`` were received."""

    id: str
    team: str
    sha256: str
    size: int
    offset: int
    whole: bool
    changed_at: float


class RunRow(Struct, frozen=True):
    """A run of the queue.

    ``digest`` is the SHA-256 of its request, by which a repeated request is known.
    ``parcel`` is the parcel as JSON, and ``secrets`` has the values that it masks, as
    JSON; both are empty once the run has started or ended. ``attempt`` counts the
    starts that were tried. ``changed`` grows with each change of any run, so that
    readers can ask for news. ``gpu_model`` is the model of its GPUs, "" for any.
    """

    id: str
    team: str
    person: str
    role: str
    digest: str
    upload: str
    sha256: str
    parcel: bytes
    queued_at: float
    project: str = ""
    engine: str = ""
    gpus: int = 0
    priority: int = 0
    alone: bool = False
    gpu_model: str = ""
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


class Store(Protocol):
    """What a server remembers. Each call is one transaction; any thread may call.

    Times are seconds since 1970, and are given by the caller.
    """

    def invite(
        self, invitations: Sequence[Invitation], now: float, valid_s: float
    ) -> list[IssuedCode]:
        """Add teams and people that are new, and issue a code for each invitation.

        A code of the same person that was not used yet is void from then on. An empty
        role leaves a team's as it is; a new team's is then "student".
        """
        ...

    def redeem(
        self,
        code: str,
        device: str,
        now: float,
        valid_s: float | None,
        scopes: tuple[Scope, ...],
    ) -> tuple[str, Identity] | None:
        """Return a new token and whose it is; None for a code that is not valid."""
        ...

    def identify(self, token: str, now: float) -> Identity | None:
        """Return whose a token is; None if it is unknown, expired or revoked.

        Its last use is noted, at most once a minute.
        """
        ...

    def valid(self, token_id: str, now: float) -> bool:
        """Return whether a token that was identified before is valid still."""
        ...

    def revoke(self, token_id: str, now: float) -> bool:
        """Make a token invalid; return False if there is none such, or it was."""
        ...

    def void_code(self, team: str, person: str) -> bool:
        """Make a person's unused code invalid; return False if there is none."""
        ...

    def people(self) -> list[PersonRow]:
        """Return everybody, by team and name."""
        ...

    def tokens(self, team: str = "", person: str = "") -> list[TokenRow]:
        """Return tokens, of a team or of a person of it, the newest first."""
        ...

    def add_upload(self, upload: UploadRow) -> UploadRow:
        """Add an upload, or return the team's earlier one of the same file."""
        ...

    def upload(self, team: str, upload_id: str) -> UploadRow | None:
        """Return a team's upload."""
        ...

    def upload_grew(
        self, upload_id: str, offset: int, now: float, *, whole: bool
    ) -> None:
        """Note how much of an upload was received."""
        ...

    def stale_uploads(self, before: float) -> list[UploadRow]:
        """Return uploads that nothing changed since, and that no waiting run needs."""
        ...

    def remove_upload(self, upload_id: str) -> None:
        """Forget an upload."""
        ...

    def add_run(self, row: RunRow) -> tuple[RunRow, bool]:
        """Add a run; return the run of this id, and whether it is the one given.

        The caller compares team and digest where it is not.
        """
        ...

    def run(self, run_id: str) -> RunRow | None:
        """Return a run."""
        ...

    def runs(
        self,
        team: str | None = None,
        state: QueueState | None = None,
        after: str = "",
        limit: int = 100,
    ) -> list[RunRow]:
        """Return runs, the newest first, from the one after ``after``; no parcels."""
        ...

    def unfinished(self) -> list[RunRow]:
        """Return the runs that have not ended, the oldest first; no parcels."""
        ...

    def started_since(self, since: float) -> list[RunRow]:
        """Return the runs that started since, the oldest first; no parcels."""
        ...

    def claim(self, run_id: str, attempt: int) -> bool:
        """Take a WAITING run of this attempt to STARTING, and count the attempt.

        Returns False where another was first, or it was cancelled.
        """
        ...

    def unclaim(self, run_id: str, attempt: int, why: str) -> bool:
        """Take a STARTING run, nothing of which ran, back to WAITING.

        ``attempt`` is that of the row as it is now, so one more than was claimed. A run
        that was cancelled meanwhile ends instead, as cancelled; that returns False.
        """
        ...

    def started(self, run_id: str, at: float) -> None:
        """Take a STARTING run to RUNNING, and forget its parcel and secrets."""
        ...

    def ended(
        self,
        run_id: str,
        at: float,
        reason: Reason | None,
        why: str = "",
        kept_bytes: int = 0,
    ) -> bool:
        """End a run in any state but ENDED, and forget its parcel and secrets."""
        ...

    def ask_cancel(self, run_id: str, at: float, why: str) -> RunRow | None:
        """Note that a run shall end; one that waits ends at once, as cancelled."""
        ...

    def wait_reason(self, why: dict[str, str]) -> None:
        """Write why runs wait, by their ids, where that changed."""
        ...

    def removable(
        self,
        ended_before: float,
        limit: int = 1000,
        role: str | None = None,
        team: str | None = None,
    ) -> list[RunRow]:
        """Return ended runs whose folders may go, the oldest first; no parcels.

        With ``role`` only those that were queued in this role, as roles differ in how
        long runs are kept; with ``team`` only that team's.
        """
        ...

    def removed(self, run_ids: Sequence[str]) -> None:
        """Note that the folders of runs are gone."""
        ...

    def use(self, team: str, since: float) -> TeamUse:
        """Return what a team has, and how many runs it queued since."""
        ...

    def changes(self) -> int:
        """Return a number that grows with each change of a run."""
        ...

    def drained(self) -> str:
        """Return why no run starts, "" if runs start."""
        ...

    def drain(self, why: str) -> None:
        """Start no more runs, for this reason; "" starts them again."""
        ...

    def audit(self, entry: AuditEntry) -> None:
        """Keep an act of staff."""
        ...

    def audited(self, limit: int = 100) -> list[AuditEntry]:
        """Return acts of staff, the newest first."""
        ...

    def check(self) -> None:
        """Raise RaiError if the store cannot be read and written."""
        ...

    def close(self) -> None:
        """Close its connections."""
        ...
