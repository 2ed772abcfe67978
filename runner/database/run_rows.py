"""Runs as rows: what all queries of runs share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    Connection,
    RowMapping,
    Select,
    delete,
    func,
    literal,
    select,
    update,
)

from runner.core.ending import Reason
from runner.database.base import RunRow
from runner.database.connections import insert
from runner.database.tables import parcels, runs, server, team_bytes
from runner.wire.remote_runs import QueueState

FIELDS = [c for c in runs.c if c.name in RunRow.__struct_fields__]
"""The columns of a listing, which has no parcels and no secrets."""

REASONS = {reason.value: reason for reason in Reason}

MOST_AT_ONCE = 500
"""Ids in one statement; SQLite bounds the values of one."""


def listing() -> Select[Any]:
    """Return a query of runs without what is large of them."""
    return select(*FIELDS)


def one(link: Connection, run_id: str) -> RunRow | None:
    """Return a whole run."""
    query = (
        select(
            *FIELDS,
            func.coalesce(parcels.c.parcel, literal(b"")).label("parcel"),
            func.coalesce(parcels.c.secrets, "").label("secrets"),
        )
        .outerjoin(parcels, parcels.c.run == runs.c.id)
        .where(runs.c.id == run_id)
    )
    row = link.execute(query).mappings().first()
    return None if row is None else _row(row)


def several(link: Connection, query: Select[Any]) -> list[RunRow]:
    """Return the runs of a listing."""
    return [_row(row) for row in link.execute(query).mappings()]


def add(link: Connection, row: RunRow, changed: int) -> bool:
    """Add a run; return False if there is one of its id."""
    values = {c.name: getattr(row, c.name) for c in FIELDS} | {"changed": changed}
    adding = insert(link, runs).values(**values, cancelled_at=None)
    added = adding.on_conflict_do_nothing(index_elements=["id"]).returning(runs.c.id)
    if link.execute(added).first() is None:
        return False
    large = {"run": row.id, "parcel": row.parcel, "secrets": row.secrets}
    link.execute(parcels.insert().values(**large))
    return True


def count_change(link: Connection) -> int:
    """Count a change of runs, and return its number.

    It comes first in each transaction that changes a run: its row is locked up to the
    end of that, so that numbers grow in the order in which changes can be seen, and no
    two transactions wait for each other.
    """
    change = update(server).values(changes=server.c.changes + 1)
    return int(link.execute(change.returning(server.c.changes)).scalar_one())


def forget_request(link: Connection, run_id: str) -> None:
    """Forget a run's parcel and secrets, which only its start needs."""
    link.execute(delete(parcels).where(parcels.c.run == run_id))


def keep_bytes(link: Connection, team: str, more: int) -> None:
    """Add to the bytes of a team's runs that are kept."""
    if more:
        adding = insert(link, team_bytes).values(team=team, bytes=more)
        total = team_bytes.c.bytes + adding.excluded.bytes
        link.execute(
            adding.on_conflict_do_update(index_elements=["team"], set_={"bytes": total})
        )


def portions(ids: Iterable[str]) -> list[list[str]]:
    """Return ids in lists short enough for a statement."""
    every = sorted(set(ids))
    return [every[i : i + MOST_AT_ONCE] for i in range(0, len(every), MOST_AT_ONCE)]


def _row(row: RowMapping) -> RunRow:
    values: dict[str, Any] = dict(row)
    values["state"] = QueueState(values["state"])
    values["reason"] = values["reason"] and REASONS[values["reason"]]
    # A listing has no parcel.
    return RunRow(**({"parcel": b""} | values))
