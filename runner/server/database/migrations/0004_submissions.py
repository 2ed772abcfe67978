"""Submissions, and the runs that are theirs; nobody read the engine of a run."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add them to a store of the revision before."""
    op.drop_column("runs", "engine")
    op.add_column("runs", sa.Column("submission", sa.Integer))
    texts = ("key", "team", "person", "role", "milestone", "trust", "term")
    op.create_table(
        "submissions",
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        *_all(sa.Text, *texts, "sha256", "project", "commit"),
        *_all(sa.Double, "received_at", "late_s"),
        *_all(sa.Integer, "attempt"),
        sa.Column("attempts", sa.Integer),
        *_all(sa.Boolean, "rehearsal", "charged", "chosen"),
        *_all(sa.Text, "runs"),
        sa.Column("reason", sa.Text),
        *_all(sa.Text, "message"),
        sa.Column("ended_at", sa.Double),
        sa.Column("measured", sa.Text),
        sa.Column("decided", sa.Text),
        *_all(sa.Text, "decided_why"),
        sa.Column("rerun_of", sa.Integer),
        *_all(sa.Boolean, "closed"),
        sa.PrimaryKeyConstraint("number", name="submissions_key"),
        sa.UniqueConstraint("team", "key", name="submissions_team_key_once"),
    )
    op.create_index(
        "submissions_by_team", "submissions", ["team", "milestone", "number"]
    )
    op.create_table(
        "extensions",
        *_all(sa.Text, "team", "milestone", "term"),
        *_all(sa.Double, "seconds"),
        *_all(sa.Text, "why"),
        sa.PrimaryKeyConstraint("team", "milestone", "term", name="extensions_key"),
    )
    op.create_table(
        "pseudonyms",
        *_all(sa.Text, "team", "term", "name"),
        sa.PrimaryKeyConstraint("team", "term", name="pseudonyms_key"),
        sa.UniqueConstraint("term", "name", name="pseudonyms_term_name_once"),
    )
    op.create_index("submissions_by_upload", "submissions", ["team", "sha256"])
    op.create_index("submissions_by_end", "submissions", ["ended_at"])


def _all(kind: Any, *names: str) -> list[sa.Column[Any]]:  # noqa: ANN401 - a type
    return [sa.Column(name, kind, nullable=False) for name in names]
