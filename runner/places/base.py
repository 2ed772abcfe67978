"""What a place is: where whole runs are carried out, apart from their client."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from runner.core import Problem, Verdict
from runner.core.order import Answer, Order
from runner.process.detached import Detached
from runner.store.claim import Standing
from runner.store.paths import RunPaths


class Worker(Protocol):
    """A worker that was started for one run, and waits for its project."""

    def carry_out(self) -> Answer:
        """Let it begin: the run's folder holds the sealed parcel.

        Return once it has the engine, the GPUs and the image's plan, or has refused.

        Raises:
            RaiError: the worker failed.
        """
        ...

    def dismiss(self) -> None:
        """Let it end without having begun; it removes the run's folder."""
        ...


class Following(Protocol):
    """What keeps the copy of a run that is carried out elsewhere up to date.

    ``trouble`` is why the other place is not reached at present, "" if it is.
    """

    paths: RunPaths
    trouble: str

    @property
    def settled(self) -> bool:
        """Whether the copy is up to date, or cannot be."""
        ...

    @property
    def doubt(self) -> str:
        """Why the copy is not up to date, "" if it is."""
        ...

    def start(self) -> None:
        """Begin, in a thread."""
        ...

    def stop(self) -> None:
        """Leave the copy as it is."""
        ...

    def check(self) -> None:
        """Raise what ended it before its time."""
        ...


class RunPlace(Protocol):
    """A place; the runs that it carries out name it in their holder.json."""

    name: str

    def look(self, runs: Iterable[RunPaths]) -> dict[str, Standing]:
        """Return of each run, by its id, whether somebody carries it out."""
        ...

    def cancel(self, paths: RunPaths) -> None:
        """Ask for a run to end; it does so by itself, later."""
        ...

    def follow(self, paths: RunPaths) -> Following | None:
        """Return what keeps the run's folder up to date; None where it is no copy."""
        ...

    def fetch_build(self, paths: RunPaths) -> None:
        """Fetch the build folder of a run that has ended, if it is not here."""
        ...

    def verdict(self, paths: RunPaths) -> Verdict | None:
        """Return why a run is gone that left no record; None if nothing is known."""
        ...

    def forget(self, paths: RunPaths) -> None:
        """Remove what is left of a run there, once it is recorded as gone."""
        ...


class WorkerPlace(RunPlace, Protocol):
    """A place that starts a worker for each run."""

    def check(self) -> list[Problem]:
        """Return why it cannot take a run; nothing if it can."""
        ...

    def start(self, order: Order, loading: Detached | None = None) -> Worker:
        """Start a worker for an order.

        ``loading`` is a worker process without a run, which a client may have started
        to load its modules in the meantime.
        """
        ...
