"""What a place is, where whole runs run: by itself it is this machine."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

from msgspec import json

from runner.core import Problem, RunRequest, Verdict
from runner.core.errors import RaiError
from runner.core.request import MOST_BYTES, Answer, answer_from, to_json
from runner.core.screen import printable
from runner.store import claim
from runner.store.claim import Standing
from runner.store.paths import RunPaths
from runner.system import files
from runner.system.process import Detached, python

WORKER = python("runner.execution.worker")
ANSWERED_WITHIN_S = 600.0
"""More than an engine that does not answer takes to be given up."""

MOST_LOG_BYTES = 1 << 20
SHOWN = 500


class LocalWorker:
    """A worker process; it reads a run's folder, and then what is asked of the run.

    ``worker`` is one without a run, which a client may have started to load its modules
    in the meantime.
    """

    def __init__(self, paths: RunPaths, worker: Detached | None = None) -> None:
        self._paths = paths
        self._worker = worker or Detached(WORKER)
        self._send(json.encode(str(paths.root)))

    def begin(self, asked: RunRequest) -> Answer:
        """Let the worker begin: the run's folder holds the packed project.

        Return once it has the engine, the GPUs and the image's plan, or has refused.

        Raises:
            RaiError: the worker failed.
        """
        self._send(to_json(asked))
        line = self._worker.read_line(ANSWERED_WITHIN_S, MOST_BYTES)
        self._worker.leave()
        try:
            return answer_from(line)
        except ValueError:  # there is none, or not a whole one
            raise self._failed() from None

    def dismiss(self) -> None:
        """Let it end without having begun; it removes the run's folder."""
        self._worker.leave()

    def _send(self, line: bytes) -> None:
        try:
            self._worker.write(line + b"\n")
        except OSError as error:
            raise self._failed() from error

    def _failed(self) -> RaiError:
        """Return an error with the last line of what the worker printed."""
        last = last_words(self._paths)
        text = f"the worker of run {self._paths.id} did not start"
        return RaiError(Problem(f"{text}: {last}" if last else text))


class Following(ABC):
    """A thread that keeps the folder of a run up to date that goes on elsewhere.

    ``trouble`` is why the other place is not reached at present, "" if it is; ``error``
    what ended it before its time.
    """

    def __init__(self, paths: RunPaths) -> None:
        self.paths, self.trouble = paths, ""
        self.error: Exception | None = None
        self.stopped = threading.Event()
        # A daemon: a place that is silent does not keep this process alive.
        self.thread = threading.Thread(
            target=self._work, name="rai-follow", daemon=True
        )

    @property
    @abstractmethod
    def settled(self) -> bool:
        """Whether the folder is up to date, or cannot be."""

    @abstractmethod
    def step(self) -> None:
        """Bring the folder up to date; called until the run has ended."""

    @property
    def over(self) -> bool:
        """Whether it was stopped, or the run has ended."""
        return self.stopped.is_set() or self.paths.record.exists()

    @property
    def doubt(self) -> str:
        """Why the folder is not up to date, "" if it is."""
        if self.error is not None:
            return str(self.error)
        return self.trouble or ("" if self.settled else "there is no answer yet")

    def start(self) -> None:
        """Begin."""
        self.thread.start()

    def stop(self) -> None:
        """Leave the folder as it is."""
        self.stopped.set()

    def check(self) -> None:
        """Raise what ended it, if anything did."""
        if self.error is not None:
            raise self.error

    def _work(self) -> None:
        try:
            while not self.over:
                self.step()
        except Exception as error:
            self.error = error


class RunPlace:
    """A place; this one is this machine, where each run has a process of its own."""

    def standing(self, paths: RunPaths) -> Standing:
        """Return whether somebody runs a run."""
        return claim.standing(paths)

    def cancel(self, paths: RunPaths) -> None:
        """Ask for a run to end; it does so by itself, later.

        Its holder looks for the request in the run's folder: a signal would end a
        program that runs rai by its Python interface.
        """
        files.touch(paths.cancel)

    def follow(self, paths: RunPaths) -> Following | None:
        """Return what keeps the run's folder up to date; None where it is no copy."""
        return None

    def fetch_build(self, paths: RunPaths) -> None:
        """Fetch the build folder of a run that has ended, if it is not here."""

    def fetch_source(self, paths: RunPaths, most_bytes: int) -> None:
        """Fetch the packed project of a run sent elsewhere, if it is not here."""

    def verdict(self, paths: RunPaths) -> Verdict | None:
        """Return why a run is gone that left no record; None if nothing is known."""
        return None

    def forget(self, paths: RunPaths) -> None:
        """Remove what is left of a run there, once it is recorded as gone."""


def last_words(paths: RunPaths) -> str:
    """Return the last line that a run's worker printed, "" if there is none."""
    try:
        said = files.read_below(paths.root, paths.worker_log.name, MOST_LOG_BYTES)
    except OSError:
        return ""
    return printable(said.decode(errors="replace").strip().rpartition("\n")[2][:SHOWN])
