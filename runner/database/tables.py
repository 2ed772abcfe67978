"""The tables of a store, as they are at the newest schema.

The migrations make them; a test holds the two together. Times are seconds since 1970.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Dialect,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)


class StoredText(TypeDecorator[str]):
    """Text without what PostgreSQL cannot hold: NUL and halves of characters."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Replace what cannot be stored, on SQLite too, so that both hold the same."""
        if value is None:
            return None
        whole = value.encode("utf-8", "replace").decode()
        return whole.replace("\0", "\ufffd")


def _text(name: str) -> Column[str]:
    return Column(name, StoredText, nullable=False)


def _time(name: str) -> Column[float]:
    return Column(name, Double, nullable=False)


def _maybe(name: str) -> Column[float]:
    return Column(name, Double)


def _bytes(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False)


metadata = MetaData(
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
    Column("name", StoredText, primary_key=True),
    _text("role"),
    _time("created_at"),
)

people = Table(
    "people",
    metadata,
    Column("team", StoredText, ForeignKey("teams.name"), primary_key=True),
    Column("name", StoredText, primary_key=True),
    _time("created_at"),
)

codes = Table(
    "codes",
    metadata,
    Column("team", StoredText, primary_key=True),
    Column("person", StoredText, primary_key=True),
    _text("hash"),
    _time("expires_at"),
    Column("maker", StoredText),
    ForeignKeyConstraint(["team", "person"], ["people.team", "people.name"]),
    UniqueConstraint("hash"),
)
"""One-time codes, at most one a person, by the SHA-256 of each.

``maker`` is the id of the person's token that made it, NULL of an invitation.
"""

tokens = Table(
    "tokens",
    metadata,
    Column("id", StoredText, primary_key=True),
    _text("hash"),
    _text("team"),
    _text("person"),
    _text("scopes"),
    _text("device"),
    _time("created_at"),
    _maybe("expires_at"),
    _maybe("last_used"),
    _maybe("revoked_at"),
    ForeignKeyConstraint(["team", "person"], ["people.team", "people.name"]),
    Index("tokens_by_person", "team", "person"),
)
"""Tokens by their ids; ``hash`` is the SHA-256 of the secret, ``scopes`` are words."""

uploads = Table(
    "uploads",
    metadata,
    Column("team", StoredText, primary_key=True),
    Column("sha256", StoredText, primary_key=True),
    _bytes("size"),
    _time("used_at"),
    Index("uploads_by_use", "used_at"),
)

runs = Table(
    "runs",
    metadata,
    Column("id", StoredText, primary_key=True),
    _text("team"),
    _text("person"),
    _text("role"),
    _text("digest"),
    _text("sha256"),
    _time("queued_at"),
    _text("project"),
    _text("engine"),
    Column("gpus", Integer, nullable=False),
    Column("priority", Integer, nullable=False),
    _text("state"),
    _text("why"),
    Column("attempt", Integer, nullable=False),
    _maybe("started_at"),
    _maybe("ended_at"),
    Column("reason", StoredText),
    Column("cancelled", Boolean, nullable=False),
    _maybe("cancelled_at"),
    _bytes("bytes"),
    Column("removed", Boolean, nullable=False),
    _bytes("changed"),
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
    Column("run", StoredText, ForeignKey("runs.id"), primary_key=True),
    Column("parcel", LargeBinary, nullable=False),
    _text("secrets"),
)
"""What is large of a run, apart, so that a change of its state writes little."""

team_bytes = Table(
    "team_bytes",
    metadata,
    Column("team", StoredText, primary_key=True),
    _bytes("bytes"),
)
"""The bytes of a team's runs that are kept, as a sum over all runs would be slow."""

audit = Table(
    "audit",
    metadata,
    Column("id", Integer, primary_key=True),
    _time("at"),
    _text("who"),
    _text("act"),
    _text("about"),
)

server = Table(
    "server",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    _bytes("changes"),
    _text("drained"),
    Column("checks", BigInteger, nullable=False, server_default="0"),
    CheckConstraint("id = 1", name="alone"),
)
"""One row: how often a run changed, why no run starts, and how often it was checked."""
