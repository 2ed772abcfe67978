"""The SQL that makes and changes the table of runs."""

from __future__ import annotations

from runner.store.entries import OWN_COLUMNS, RECORDED, SEARCHED
from runner.store.query import ACTIVE

COLUMNS = RECORDED + OWN_COLUMNS + SEARCHED
NAMES = [column.split()[0] for column in RECORDED + SEARCHED]

MAKE = (
    "DROP TABLE IF EXISTS runs",
    "DROP TABLE IF EXISTS seen",
    f"CREATE TABLE runs ({', '.join(COLUMNS)})",
    "CREATE INDEX newest ON runs (created_at, id)",
    f"CREATE INDEX active ON runs (created_at, id) WHERE {ACTIVE}",
    "CREATE INDEX tagged ON runs (tag) WHERE tag != ''",
    "CREATE TABLE seen (changed_ns INTEGER NOT NULL, others TEXT NOT NULL)",
)
INTO = f"INTO runs ({', '.join(NAMES)}) VALUES ({', '.join('?' * len(NAMES))})"
PUT = (
    f"INSERT {INTO} ON CONFLICT (id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in NAMES[1:])
    + ", size_bytes = NULL"
)
ADD = f"INSERT OR IGNORE {INTO}"
"""Keeps a run that another process has put meanwhile."""
OWN = "UPDATE runs SET tag = ?, note = ? WHERE id = ?"
REMOVE = "DELETE FROM runs WHERE id = ?"
