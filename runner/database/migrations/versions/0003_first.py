"""Make the first schema: people, tokens, uploads, runs, and acts of staff."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = None


def upgrade() -> None:
    """Make all tables."""
    _accounts()
    _uploads()
    _runs()
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        _text("who"),
        _text("act"),
        _text("about"),
        sa.PrimaryKeyConstraint("id", name="audit_key"),
    )
    server = op.create_table(
        "server",
        sa.Column("id", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("changes", sa.BigInteger, nullable=False),
        _text("drained"),
        sa.Column("checks", sa.BigInteger, nullable=False, server_default="0"),
        sa.CheckConstraint("id = 1", name="server_alone"),
        sa.PrimaryKeyConstraint("id", name="server_key"),
    )
    op.bulk_insert(server, [{"id": 1, "changes": 0, "drained": ""}])


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False)


def _accounts() -> None:
    op.create_table(
        "teams",
        _text("name"),
        _text("role"),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("name", name="teams_key"),
    )
    op.create_table(
        "people",
        _text("team"),
        _text("name"),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("team", "name", name="people_key"),
        sa.ForeignKeyConstraint(["team"], ["teams.name"], name="people_of_teams"),
    )
    op.create_table(
        "codes",
        _text("team"),
        _text("person"),
        _text("hash"),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.Column("maker", sa.Text),
        sa.PrimaryKeyConstraint("team", "person", name="codes_key"),
        sa.ForeignKeyConstraint(
            ["team", "person"], ["people.team", "people.name"], name="codes_of_people"
        ),
        sa.UniqueConstraint("hash", name="codes_hash_once"),
    )
    op.create_table(
        "tokens",
        _text("id"),
        _text("hash"),
        _text("team"),
        _text("person"),
        _text("scopes"),
        _text("device"),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double),
        sa.Column("last_used", sa.Double),
        sa.Column("revoked_at", sa.Double),
        sa.PrimaryKeyConstraint("id", name="tokens_key"),
        sa.ForeignKeyConstraint(
            ["team", "person"], ["people.team", "people.name"], name="tokens_of_people"
        ),
    )
    op.create_index("tokens_by_person", "tokens", ["team", "person"])


def _uploads() -> None:
    op.create_table(
        "uploads",
        _text("team"),
        _text("sha256"),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("used_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("team", "sha256", name="uploads_key"),
    )
    op.create_index("uploads_by_use", "uploads", ["used_at"])


def _runs() -> None:
    op.create_table(
        "runs",
        _text("id"),
        _text("team"),
        _text("person"),
        _text("role"),
        _text("digest"),
        _text("sha256"),
        sa.Column("queued_at", sa.Double, nullable=False),
        _text("project"),
        _text("engine"),
        sa.Column("gpus", sa.Integer, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        _text("state"),
        _text("why"),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("started_at", sa.Double),
        sa.Column("ended_at", sa.Double),
        sa.Column("reason", sa.Text),
        sa.Column("cancelled", sa.Boolean, nullable=False),
        sa.Column("cancelled_at", sa.Double),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("removed", sa.Boolean, nullable=False),
        sa.Column("changed", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="runs_key"),
    )
    for name, columns in (
        ("runs_by_time", ["queued_at", "id"]),
        ("runs_by_state", ["state", "queued_at", "id"]),
        ("runs_by_team", ["team", "queued_at", "id"]),
        ("runs_by_team_and_state", ["team", "state", "queued_at", "id"]),
        ("runs_by_start", ["started_at", "id"]),
        ("runs_by_change", ["changed"]),
        ("runs_by_end", ["removed", "ended_at", "id"]),
    ):
        op.create_index(name, "runs", columns)
    op.create_table(
        "parcels",
        _text("run"),
        sa.Column("parcel", sa.LargeBinary, nullable=False),
        _text("secrets"),
        sa.PrimaryKeyConstraint("run", name="parcels_key"),
        sa.ForeignKeyConstraint(["run"], ["runs.id"], name="parcels_of_runs"),
    )
    op.create_table(
        "team_bytes",
        _text("team"),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("team", name="team_bytes_key"),
    )
