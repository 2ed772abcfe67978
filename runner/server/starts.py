"""Starts of runs at the job host, each in a thread, since one may take minutes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path

from msgspec import Struct, json

from runner import files
from runner.core import Problem, Reason
from runner.core.errors import BusyError, RaiError
from runner.core.screen import printable
from runner.database.base import RunRow
from runner.jobhost.base import JobHost
from runner.scheduling.roles import ServerRules
from runner.server.base import RunSecrets
from runner.server.uploadfiles import upload_path
from runner.wire.host import StartRun

PARCELS = "starting"
"""The folder, beside the uploads, of the parcels that are being handed over."""

UPLOAD_GONE = Problem(
    "the server no longer has the packed project of this run", hint="send it again"
)


Launch = Callable[[Callable[[], None]], None]


def in_thread(work: Callable[[], None]) -> None:
    """Do some work in a thread that ends with the process, whatever it waits for."""
    threading.Thread(target=work, name="start", daemon=True).start()


class Handed(Enum):
    """What became of a start."""

    TAKEN = auto()
    """The host has it, and a worker takes it."""

    REFUSED = auto()
    """The host will never start it."""

    LATER = auto()
    """The host has no room; nothing of it ran."""

    UNKNOWN = auto()
    """The answer was lost: it may have begun."""


class StartOutcome(Struct, frozen=True):
    """What became of the start of a run; the words are for its team."""

    id: str
    handed: Handed
    reason: Reason | None = None
    why: str = ""


class Starts:
    """The starts that are under way; ``wake`` is called as each is over."""

    def __init__(
        self,
        host: JobHost,
        rules: ServerRules,
        folder: Path,
        wake: Callable[[], None],
        launch: Launch,
    ) -> None:
        self._host, self._rules, self._folder = host, rules, folder
        self._wake, self._launch = wake, launch
        self._lock = threading.Lock()
        self._under_way: set[str] = set()
        self._over: list[StartOutcome] = []

    def under_way(self, run_id: str) -> bool:
        """Whether this run is being started by this process."""
        with self._lock:
            return run_id in self._under_way

    def begin(self, row: RunRow) -> None:
        """Hand a run to the host, which does nothing if it has it already."""
        with self._lock:
            self._under_way.add(row.id)
        self._launch(lambda: self._handle(row))

    def over(self) -> list[StartOutcome]:
        """Return what became of the starts that are over since the last call."""
        with self._lock:
            found, self._over = self._over, []
            self._under_way.difference_update(one.id for one in found)
            return found

    def _handle(self, row: RunRow) -> None:
        outcome = StartOutcome(row.id, Handed.UNKNOWN, why="the server stopped")
        try:
            outcome = self._handed(row)
        except Exception as error:  # whatever it is, it may have begun
            outcome = StartOutcome(row.id, Handed.UNKNOWN, why=repr(error))
        finally:
            with self._lock:
                self._over.append(outcome)
            self._wake()

    def _handed(self, row: RunRow) -> StartOutcome:
        source = upload_path(self._folder, row.team, row.sha256)
        if not source.is_file():
            return _refused(row, Reason.INTERNAL, (UPLOAD_GONE,))
        parcel = self._folder / PARCELS / f"{row.id}.json"
        parcel.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            files.write(parcel, row.parcel)
            answer = self._host.start(self._request(row), parcel, source)
        except BusyError as error:
            return StartOutcome(row.id, Handed.UNKNOWN, why=str(error))
        except RaiError as error:
            return _refused(row, error.reason, error.problems)
        finally:
            parcel.unlink(missing_ok=True)
        if answer.reason is None:
            return StartOutcome(row.id, Handed.TAKEN)
        if answer.reason is Reason.BUSY:
            return StartOutcome(row.id, Handed.LATER, why=_words(answer.problems))
        return _refused(row, answer.reason, answer.problems)

    def _request(self, row: RunRow) -> StartRun:
        text = row.secrets
        kept = json.decode(text, type=RunSecrets) if text else RunSecrets()
        role, whose = self._rules.role(row.role), f"rai:{row.team}/{row.person}"
        return StartRun(
            row.id,
            settings={"RAI_ENGINE": row.engine} if row.engine else {},
            spec_text=kept.spec_text,
            secrets=kept.secrets,
            allowed=role.policy,
            slurm={**role.slurm, "comment": printable(whose)},
        )


def _refused(
    row: RunRow, reason: Reason, problems: tuple[Problem, ...]
) -> StartOutcome:
    return StartOutcome(row.id, Handed.REFUSED, reason, _words(problems))


def _words(problems: tuple[Problem, ...]) -> str:
    return "\n".join(str(problem) for problem in problems)
