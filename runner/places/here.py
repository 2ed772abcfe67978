"""This machine: each detached run has a worker process of its own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from runner import files
from runner.core import Problem
from runner.core.errors import RaiError
from runner.core.order import MOST_BYTES, SEALED, Answer, Order, answer_from, to_line
from runner.places.words import last_words
from runner.process.detached import Detached, python
from runner.store import claim
from runner.store.claim import Standing
from runner.store.paths import RunPaths

WORKER = python("runner.worker")
ANSWERED_WITHIN_S = 600.0
"""More than an engine that does not answer takes to be given up."""


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
        files.touch(paths.cancel)

    def follow(self, paths: RunPaths) -> None:
        """Return None: the run's folder is its own."""

    def fetch_build(self, paths: RunPaths) -> None:
        """Do nothing: what there is of it is here."""

    def verdict(self, paths: RunPaths) -> None:
        """Return None: its process died, and nobody knows why."""

    def forget(self, paths: RunPaths) -> None:
        """Do nothing: its process took all with it."""


class LocalWorker:
    """A worker process; it reads its order, and then that the project is sealed."""

    def __init__(self, order: Order, worker: Detached) -> None:
        self._paths, self._worker = RunPaths(Path(order.folder)), worker
        self._sealed = order.sealed
        self._send(to_line(order))

    def carry_out(self) -> Answer:
        """Let the worker begin, and wait for its answer."""
        if not self._sealed:
            self._send(SEALED)
        line = self._worker.read_line(ANSWERED_WITHIN_S, MOST_BYTES)
        self._worker.leave()
        try:
            return answer_from(line)
        except ValueError:  # there is none, or not a whole one
            raise self._failed() from None

    def dismiss(self) -> None:
        """Close the pipe on which the worker waits."""
        self._worker.leave()

    def _send(self, line: bytes) -> None:
        try:
            self._worker.write(line)
        except OSError as error:
            raise self._failed() from error

    def _failed(self) -> RaiError:
        """Return an error with the last line of what the worker printed."""
        last = last_words(self._paths)
        text = f"the worker of run {self._paths.id} did not start"
        return RaiError(Problem(f"{text}: {last}" if last else text))
