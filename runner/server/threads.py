"""Calls that block, in a bounded number of threads beside the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """Threads for the store, for uploads, and for the folders of runs.

    They are apart, so that a slow disk, or a Slurm that hangs, holds up nothing else.
    A caller that is cancelled waits for its call to end.
    """

    def __init__(self) -> None:
        self._store = CapacityLimiter(6)
        self._files = CapacityLimiter(6)
        self._runs = CapacityLimiter(6)

    async def store(self, call: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Return what a call of the store, or a check of a request, returns."""
        return await _run(self._store, call, *args, **named)

    async def files(self, call: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Return what a call that reads or writes files returns."""
        return await _run(self._files, call, *args, **named)

    async def runs(self, call: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Return what a call about runs returns."""
        return await _run(self._runs, call, *args, **named)


async def _run(
    limiter: CapacityLimiter, call: Callable[P, T], *args: P.args, **named: P.kwargs
) -> T:
    return await to_thread.run_sync(lambda: call(*args, **named), limiter=limiter)
