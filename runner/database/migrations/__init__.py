"""How the schema of a store grew, for Alembic: one file a step in ``versions``."""
