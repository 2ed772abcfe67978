"""Count the checks of a store, as SQLite writes nothing where no value changes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the count."""
    count = sa.Column("checks", sa.BigInteger, nullable=False, server_default="0")
    op.add_column("server", count)
