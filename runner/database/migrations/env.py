"""Run migrations on the connection that ``schema.migrate`` hands over."""

from __future__ import annotations

from alembic import context

from runner.database.connections import VERSION_TABLE

# The caller's transaction holds all steps, so that a failed one leaves the store as it
# was; SQLite can roll back DDL too.
context.configure(
    connection=context.config.attributes["connection"],
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
