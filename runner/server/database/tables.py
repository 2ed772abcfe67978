"""The tables of a store, as they are at the newest schema.

New stores have them from here, older ones by the steps in ``migrations``; a test holds
the two together. Times are seconds since 1970.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, Boolean, Column, Double, Index, Integer, Table


class StoredText(sa.TypeDecorator[str]):
    """Text without what PostgreSQL cannot hold: NUL and halves of characters."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        """Replace what cannot be stored, on SQLite too, so that both hold the same."""
        if value is None:
            return None
        return value.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def _key(*names: str) -> list[Column[str]]:
    return [Column(name, StoredText, primary_key=True) for name in names]


def _all(kind: Any, *names: str) -> list[Column[Any]]:  # noqa: ANN401 - a type of any
    """Return columns of one type that always have a value."""
    return [Column(name, kind, nullable=False) for name in names]


metadata = sa.MetaData(
    naming_convention={
        "pk": "%(table_name)s_key",
        "uq": "%(table_name)s_%(column_0_N_name)s_once",
        "fk": "%(table_name)s_of_%(referred_table_name)s",
        "ck": "%(table_name)s_%(constraint_name)s",
    }
)

teams = Table(
    "teams",
    metadata,
    *_key("name"),
    *_all(StoredText, "role"),
    *_all(Double, "created_at"),
)

people = Table(
    "people",
    metadata,
    *_key("team", "name"),
    *_all(Double, "created_at"),
    sa.ForeignKeyConstraint(["team"], ["teams.name"]),
)

codes = Table(
    "codes",
    metadata,
    *_key("team", "person"),
    *_all(StoredText, "hash"),
    *_all(Double, "expires_at"),
    Column("maker", StoredText),
    sa.ForeignKeyConstraint(["team", "person"], ["people.team", "people.name"]),
    sa.UniqueConstraint("hash"),
)
"""One-time codes, at most one a person, by the SHA-256 of each.

``maker`` is the id of the person's token that made it, NULL of an invitation.
"""

tokens = Table(
    "tokens",
    metadata,
    *_key("id"),
    *_all(StoredText, "hash", "team", "person", "scopes", "device"),
    *_all(Double, "created_at"),
    Column("expires_at", Double),
    Column("last_used", Double),
    Column("revoked_at", Double),
    sa.ForeignKeyConstraint(["team", "person"], ["people.team", "people.name"]),
    Index("tokens_by_person", "team", "person"),
)
"""Tokens by their ids; ``hash`` is the SHA-256 of the secret, ``scopes`` are words."""

uploads = Table(
    "uploads",
    metadata,
    *_key("team", "sha256"),
    *_all(BigInteger, "size"),
    *_all(Double, "used_at"),
    Index("uploads_by_use", "used_at"),
)

runs = Table(
    "runs",
    metadata,
    *_key("id"),
    *_all(StoredText, "team", "person", "role", "digest", "sha256"),
    *_all(Double, "queued_at"),
    *_all(StoredText, "project"),
    *_all(Integer, "gpus", "priority"),
    *_all(StoredText, "state", "why"),
    *_all(Integer, "attempt"),
    Column("started_at", Double),
    Column("ended_at", Double),
    Column("reason", StoredText),
    *_all(Boolean, "cancelled"),
    Column("cancelled_at", Double),
    *_all(BigInteger, "bytes"),
    *_all(Boolean, "removed"),
    *_all(BigInteger, "changed"),
    Column("submission", Integer),
    Index("runs_by_time", "queued_at", "id"),
    Index("runs_by_state", "state", "queued_at", "id"),
    Index("runs_by_team", "team", "queued_at", "id"),
    Index("runs_by_team_and_state", "team", "state", "queued_at", "id"),
    Index("runs_by_start", "started_at", "id"),
    Index("runs_by_change", "changed"),
    Index("runs_by_end", "removed", "ended_at", "id"),
)

parcels = Table(
    "parcels",
    metadata,
    *_key("run"),
    *_all(sa.LargeBinary, "parcel"),
    *_all(StoredText, "secrets"),
    sa.ForeignKeyConstraint(["run"], ["runs.id"]),
)
"""What is large of a run, apart, so that a change of its state writes little."""

submissions = Table(
    "submissions",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    *_all(StoredText, "key", "team", "person", "role", "milestone", "trust", "term"),
    *_all(StoredText, "sha256", "project", "commit"),
    *_all(Double, "received_at", "late_s"),
    *_all(Integer, "attempt"),
    Column("attempts", Integer),
    *_all(Boolean, "rehearsal", "charged", "chosen"),
    *_all(StoredText, "runs"),
    Column("reason", StoredText),
    *_all(StoredText, "message"),
    Column("ended_at", Double),
    Column("measured", StoredText),
    Column("decided", StoredText),
    *_all(StoredText, "decided_why"),
    Column("rerun_of", Integer),
    *_all(Boolean, "closed"),
    sa.UniqueConstraint("team", "key"),
    Index("submissions_by_team", "team", "milestone", "number"),
    Index("submissions_by_upload", "team", "sha256"),
    Index("submissions_by_end", "ended_at"),
)
"""Submissions by their numbers; of ``runs`` and ``measured`` the text is JSON."""

extensions = Table(
    "extensions",
    metadata,
    *_key("team", "milestone", "term"),
    *_all(Double, "seconds"),
    *_all(StoredText, "why"),
)
"""By how much staff moved a team's deadlines."""

pseudonyms = Table(
    "pseudonyms",
    metadata,
    *_key("team", "term"),
    *_all(StoredText, "name"),
    sa.UniqueConstraint("term", "name"),
)
"""What a team is called on the leaderboards that others see."""

team_bytes = Table("team_bytes", metadata, *_key("team"), *_all(BigInteger, "bytes"))
"""The bytes of a team's runs that are kept, as a sum over all runs would be slow."""

audit = Table(
    "audit",
    metadata,
    Column("id", Integer, primary_key=True),
    *_all(Double, "at"),
    *_all(StoredText, "who", "act", "about"),
)

server = Table(
    "server",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    *_all(BigInteger, "changes"),
    *_all(StoredText, "drained"),
    Column("checks", BigInteger, nullable=False, server_default="0"),
    sa.CheckConstraint("id = 1", name="alone"),
)
"""One row: how often a run changed, why no run starts, and how often it was checked."""
