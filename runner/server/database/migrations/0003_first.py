"""The first schema. A new store is made from ``tables``, an older one by later steps.

Such a step, `0004_WHAT.py`, has a function ``upgrade`` that calls Alembic's ``op``.
"""

revision = "0003"
down_revision = None
