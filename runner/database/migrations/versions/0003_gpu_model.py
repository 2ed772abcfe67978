"""Keep the model of GPU that a run needs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the model."""
    model = sa.Column(
        "gpu_model", sa.Text, nullable=False, server_default=sa.text("''")
    )
    op.add_column("runs", model)
