"""What staff did: whether runs start, and the log of acts."""

from __future__ import annotations

from sqlalchemy import select, update

from runner.database.base import AuditEntry
from runner.database.connections import Transactions
from runner.database.tables import audit, server


class Acts(Transactions):
    """The part of a store that keeps acts of staff."""

    def drained(self) -> str:
        """Return why no run starts, "" if runs start."""
        with self.reading() as link:
            return str(link.execute(select(server.c.drained)).scalar_one())

    def drain(self, why: str) -> None:
        """Start no more runs, for this reason; "" starts them again."""
        with self.writing() as link:
            link.execute(update(server).values(drained=why))

    def audit(self, entry: AuditEntry) -> None:
        """Keep an act of staff."""
        with self.writing() as link:
            link.execute(
                audit.insert().values(
                    at=entry.at, who=entry.who, act=entry.act, about=entry.about
                )
            )

    def audited(self, limit: int = 100) -> list[AuditEntry]:
        """Return acts of staff, the newest first."""
        query = (
            select(audit.c.at, audit.c.who, audit.c.act, audit.c.about)
            .order_by(audit.c.id.desc())
            .limit(limit)
        )
        with self.reading() as link:
            return [AuditEntry(*row) for row in link.execute(query)]

    def check(self) -> None:
        """Raise RaiError if the store cannot be read and written."""
        with self.writing() as link:
            link.execute(update(server).values(checks=server.c.checks + 1))
