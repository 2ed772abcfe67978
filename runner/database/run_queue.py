"""The queue: runs, and the steps from waiting to their end, each of them guarded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sqlalchemy import ColumnElement, select, update

from runner.core.ending import Reason
from runner.core.errors import NotAllowedError
from runner.core.units import MIB
from runner.database import run_rows
from runner.database.base import RunRow
from runner.database.connections import Transactions, rollback
from runner.database.tables import runs
from runner.wire.remote_runs import QueueState

MOST_BYTES = 4 * MIB
"""The size of a parcel, and of its secrets, so that no row is too large for memory."""


class RunQueue(Transactions):
    """The part of a store that changes runs."""

    def add_run(self, row: RunRow) -> tuple[RunRow, bool]:
        """Add a run; return the run of this id, and whether it is the one given.

        The caller compares team and digest where it is not. Raise NotAllowedError for
        a parcel or secrets over 4 MiB.
        """
        if max(len(row.parcel), len(row.secrets.encode())) > MOST_BYTES:
            raise NotAllowedError(f"the request of run {row.id} is over 4 MiB")
        with self.writing() as link:
            new = run_rows.add(link, row, run_rows.count_change(link))
            kept = run_rows.one(link, row.id)
            if not new:
                rollback(link)
        assert kept is not None, "a run is never deleted"
        return kept, new

    def claim(self, run_id: str, attempt: int) -> bool:
        """Take a WAITING run of this attempt to STARTING, and count the attempt.

        Returns False where another was first, or it was cancelled.
        """
        waits = (
            runs.c.state == QueueState.WAITING,
            runs.c.attempt == attempt,
            runs.c.cancelled.is_(False),
        )
        new = {"state": QueueState.STARTING, "attempt": attempt + 1, "why": ""}
        return self._changed(run_id, waits, new)

    def unclaim(self, run_id: str, attempt: int, why: str) -> bool:
        """Take a STARTING run, nothing of which ran, back to WAITING.

        ``attempt`` is that of the row as it is now, so one more than was claimed. A run
        that was cancelled meanwhile ends instead, as cancelled; that returns False.
        """
        starts = (runs.c.state == QueueState.STARTING, runs.c.attempt == attempt)
        with self.writing() as link:
            number = run_rows.count_change(link)
            back = {"state": QueueState.WAITING, "why": why, "changed": number}
            change = update(runs).where(runs.c.id == run_id, *starts)
            uncancelled = change.where(runs.c.cancelled.is_(False))
            if link.execute(uncancelled.values(**back)).rowcount:
                return True
            end = {
                "state": QueueState.ENDED,
                "reason": Reason.CANCELLED,
                "ended_at": runs.c.cancelled_at,
                "changed": number,
            }
            if link.execute(change.values(**end)).rowcount:
                run_rows.forget_request(link, run_id)
            else:
                rollback(link)
            return False

    def started(self, run_id: str, at: float) -> None:
        """Take a STARTING run to RUNNING, and forget its parcel and secrets."""
        starts = (runs.c.state == QueueState.STARTING,)
        new = {"state": QueueState.RUNNING, "started_at": at, "why": ""}
        self._changed(run_id, starts, new, forget=True)

    def ended(
        self,
        run_id: str,
        at: float,
        reason: Reason | None,
        why: str = "",
        kept_bytes: int = 0,
    ) -> bool:
        """End a run in any state but ENDED, and forget its parcel and secrets."""
        with self.writing() as link:
            change = (
                update(runs)
                .where(runs.c.id == run_id, runs.c.state != QueueState.ENDED)
                .values(
                    state=QueueState.ENDED,
                    ended_at=at,
                    reason=reason,
                    why=why,
                    bytes=kept_bytes,
                    changed=run_rows.count_change(link),
                )
                .returning(runs.c.team)
            )
            if (row := link.execute(change).first()) is None:
                rollback(link)
                return False
            run_rows.forget_request(link, run_id)
            run_rows.keep_bytes(link, row.team, kept_bytes)
            return True

    def ask_cancel(self, run_id: str, at: float, why: str) -> RunRow | None:
        """Note that a run shall end; one that waits ends at once, as cancelled."""
        with self.writing() as link:
            number = run_rows.count_change(link)
            asked = {"cancelled": True, "cancelled_at": at, "why": why}
            asked["changed"] = number
            end = {"state": QueueState.ENDED, "reason": Reason.CANCELLED}
            change = update(runs).where(
                runs.c.id == run_id, runs.c.cancelled.is_(False)
            )
            waits = runs.c.state == QueueState.WAITING
            begun = runs.c.state.in_((QueueState.STARTING, QueueState.RUNNING))
            ending = change.where(waits).values(**asked, **end, ended_at=at)
            if link.execute(ending).rowcount:
                run_rows.forget_request(link, run_id)
                return run_rows.one(link, run_id)
            if link.execute(change.where(begun).values(**asked)).rowcount:
                return run_rows.one(link, run_id)
            rollback(link)
        with self.reading() as link:
            return run_rows.one(link, run_id)

    def wait_reason(self, why: dict[str, str]) -> None:
        """Write why runs wait, by their ids, where that changed.

        A run that was handed over may wait yet; why one was cancelled is kept.
        """
        waits = (
            runs.c.state.in_((QueueState.WAITING, QueueState.STARTING)),
            runs.c.cancelled.is_(False),
        )
        query = select(runs.c.id, runs.c.why).where(*waits)
        with self.reading() as link:
            known = {row.id: row.why for row in link.execute(query)}
        new = {name: why[name] for name in sorted(known.keys() & why.keys())}
        new = {name: text for name, text in new.items() if text != known[name]}
        if not new:
            return
        with self.writing() as link:
            number = run_rows.count_change(link)
            for name, text in new.items():
                link.execute(
                    update(runs)
                    .where(runs.c.id == name, *waits)
                    .values(why=text, changed=number)
                )

    def removed(self, run_ids: Sequence[str]) -> None:
        """Note that the folders of runs are gone."""
        freed: Counter[str] = Counter()
        with self.writing() as link:
            number = run_rows.count_change(link)
            for ids in run_rows.portions(run_ids):
                gone = (
                    update(runs)
                    .where(runs.c.id.in_(ids), runs.c.state == QueueState.ENDED)
                    .where(runs.c.removed.is_(False))
                    .values(removed=True, changed=number)
                    .returning(runs.c.team, runs.c.bytes)
                )
                for row in link.execute(gone):
                    freed[row.team] += row.bytes
            for team, count in sorted(freed.items()):
                run_rows.keep_bytes(link, team, -count)

    def _changed(
        self,
        run_id: str,
        guard: Sequence[ColumnElement[bool]],
        new: dict[str, object],
        *,
        forget: bool = False,
    ) -> bool:
        """Change a run by one guarded statement; return whether it was as expected."""
        expected = (runs.c.id == run_id, *guard)
        # Looked at first, so that who comes too late does not wait for who writes.
        with self.reading() as link:
            if link.execute(select(runs.c.id).where(*expected)).first() is None:
                return False
        with self.writing() as link:
            number = run_rows.count_change(link)
            change = update(runs).where(*expected)
            if not link.execute(change.values(**new, changed=number)).rowcount:
                rollback(link)
                return False
            if forget:
                run_rows.forget_request(link, run_id)
            return True
