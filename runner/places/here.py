"""This machine: each detached run has a worker process of its own."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from runner.core import Problem
from runner.core.errors import RaiError
from runner.core.order import SEALED, Order, to_line
from runner.process.detached import Detached, python
from runner.store import claim
from runner.store.claim import Standing
from runner.store.paths import RunPaths

WORKER = python("runner.worker")
TAKEN_WITHIN_S = 60.0
POLL_S = 0.005
SHOWN_BYTES = 4096


class Here:
    """Workers as processes of this user, in sessions of their own."""

    name = claim.HERE

    def check(self) -> list[Problem]:
        """Return nothing: this machine takes every run."""
        return []

    def start(self, order: Order, loading: Detached | None = None) -> LocalWorker:
        """Start a worker, which loads its modules while the project is packed."""
        return LocalWorker(order, loading or Detached(WORKER))

    def look(self, runs: Iterable[RunPaths]) -> dict[str, Standing]:
        """Return of each run, by its id, whether somebody carries it out."""
        return {paths.id: claim.standing(paths) for paths in runs}

    def cancel(self, paths: RunPaths) -> None:
        """Leave the request in the run's folder, where its holder looks for it.

        A signal would end a program that runs rai by its Python interface.
        """
        paths.cancel.touch()


class LocalWorker:
    """A worker process; it reads its order, and then that the project is sealed."""

    def __init__(self, order: Order, worker: Detached) -> None:
        self._paths, self._worker = RunPaths(Path(order.folder)), worker
        self._send(to_line(order))

    def carry_out(self) -> None:
        """Let the worker begin, and wait until it has recorded the first event."""
        self._send(SEALED)
        deadline = time.monotonic() + TAKEN_WITHIN_S
        while not _written(self._paths.events):
            over = self._worker.ended() or time.monotonic() > deadline
            if over and not _written(self._paths.events):
                raise self._failed()
            time.sleep(POLL_S)
        self._worker.leave()

    def dismiss(self) -> None:
        """Close the pipe on which the worker waits."""
        self._worker.leave()

    def _send(self, line: bytes) -> None:
        try:
            self._worker.write(line)
        except OSError as error:
            raise self._failed() from error

    def _failed(self) -> RaiError:
        try:
            with self._paths.worker_log.open("rb") as log:
                said = log.read(SHOWN_BYTES).decode(errors="replace").strip()
        except OSError:
            said = ""
        text = f"the worker of run {self._paths.id} did not start"
        return RaiError(Problem(f"{text}: {said}" if said else text))


def _written(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False
