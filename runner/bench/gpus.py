"""The GPUs of a bench: taken once, for both of its runs, until the last has ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import cast

from runner.core import Gpu
from runner.core.errors import BusyError
from runner.engines.base import Engine


class SharedGpus:
    """The GPUs that the runs of one bench hold together.

    ``same`` says that they ask for as many: then the second gets those of the first
    and no others, whichever would be free.
    """

    def __init__(self, *, same: bool) -> None:
        self._same = same
        self._held: dict[str, ExitStack] = {}
        self._users: dict[str, set[str]] = {}

    @contextmanager
    def hold(self, engine: Engine, gpu: Gpu, run_id: str) -> Iterator[None]:
        """Keep a GPU for one of the runs; it is locked until both have let it go.

        Raises:
            BusyError: a run that is not of this bench has it, or the other run of this
                bench has others.
        """
        if gpu.uuid not in self._held:
            others = [one for one, runs in self._users.items() if runs - {run_id}]
            if self._same and others:
                held = ", ".join(others)
                raise BusyError(f"the other run of this bench uses GPU {held}")
            with ExitStack() as taking:
                taking.enter_context(engine.hold(gpu, run_id))
                self._held[gpu.uuid] = taking.pop_all()
                self._users[gpu.uuid] = set()
        self._users[gpu.uuid].add(run_id)
        try:
            yield
        finally:
            self._users[gpu.uuid].remove(run_id)
            if not self._users[gpu.uuid]:
                del self._users[gpu.uuid]
                self._held.pop(gpu.uuid).close()


class BenchEngine:
    """An engine that is as another, but for GPUs that it shares."""

    def __init__(self, engine: Engine, shared: SharedGpus) -> None:
        self._engine, self._shared = engine, shared

    def __getattr__(self, name: str) -> object:
        return getattr(self._engine, name)

    def hold(self, gpu: Gpu, run_id: str) -> AbstractContextManager[None]:
        """Keep a GPU for both runs."""
        return self._shared.hold(self._engine, gpu, run_id)


def shared(
    engines: tuple[Engine, ...], others: tuple[Engine, ...], *, same: bool
) -> tuple[tuple[Engine, ...], tuple[Engine, ...]]:
    """Return the engines of both runs, which hold their GPUs together."""
    gpus = SharedGpus(same=same)

    def sharing(found: tuple[Engine, ...]) -> tuple[Engine, ...]:
        return tuple(cast("Engine", BenchEngine(engine, gpus)) for engine in found)

    return sharing(engines), sharing(others)
