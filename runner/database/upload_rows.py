"""Uploads: how much of each file was received."""

from __future__ import annotations

from sqlalchemy import delete, exists, select, update

from runner.database.base import UploadRow
from runner.database.connections import Transactions, insert
from runner.database.tables import runs, uploads
from runner.wire.remote_runs import QueueState

_NEEDED_BY = (QueueState.WAITING, QueueState.STARTING)


class Uploads(Transactions):
    """The part of a store that knows uploads."""

    def add_upload(self, upload: UploadRow) -> UploadRow:
        """Add an upload, or return the team's earlier one of the same file.

        The earlier one counts as changed now, so that it is not stale soon.
        """
        with self.writing() as link:
            adding = insert(link, uploads).values(
                id=upload.id,
                team=upload.team,
                sha256=upload.sha256,
                size=upload.size,
                offset=upload.offset,
                whole=upload.whole,
                changed_at=upload.changed_at,
            )
            kept = adding.on_conflict_do_update(
                index_elements=["team", "sha256"],
                set_={"changed_at": adding.excluded.changed_at},
            ).returning(*uploads.c)
            return UploadRow(**link.execute(kept).mappings().one())

    def upload(self, team: str, upload_id: str) -> UploadRow | None:
        """Return a team's upload."""
        query = select(uploads).where(uploads.c.id == upload_id, uploads.c.team == team)
        with self.reading() as link:
            row = link.execute(query).mappings().first()
        return None if row is None else UploadRow(**row)

    def upload_grew(
        self, upload_id: str, offset: int, now: float, *, whole: bool
    ) -> None:
        """Note how much of an upload was received."""
        change = (
            update(uploads)
            .where(uploads.c.id == upload_id)
            .values(offset=offset, whole=whole, changed_at=now)
        )
        with self.writing() as link:
            link.execute(change)

    def stale_uploads(self, before: float) -> list[UploadRow]:
        """Return uploads that nothing changed since, and that no waiting run needs.

        A run that starts needs its upload too: it may have to wait again.
        """
        needed = exists().where(
            runs.c.upload == uploads.c.id, runs.c.state.in_(_NEEDED_BY)
        )
        query = (
            select(uploads)
            .where(uploads.c.changed_at < before, ~needed)
            .order_by(uploads.c.changed_at, uploads.c.id)
        )
        with self.reading() as link:
            return [UploadRow(**row) for row in link.execute(query).mappings()]

    def remove_upload(self, upload_id: str) -> None:
        """Forget an upload."""
        with self.writing() as link:
            link.execute(delete(uploads).where(uploads.c.id == upload_id))
