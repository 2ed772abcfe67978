"""Calls that block, in a bounded number of threads beside the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """Threads for the store, for files, and for the job host.

    They are apart, so that a job host that hangs, or a slow disk, holds up nothing
    else. A caller that is cancelled waits for its call to end.
    """

    def __init__(self) -> None:
        self._store = CapacityLimiter(6)
        self._files = CapacityLimiter(6)
        self._host = CapacityLimiter(6)

    async def store(self, call: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Return what a call of the store, or a check of a request, returns."""
        return await _run(self._store, call, *args, **named)

    async def files(self, call: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Return what a call that reads or writes files returns."""
        return await _run(self._files, call, *args, **named)

    async def host(self, call: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Return what a call of the job host returns."""
        return await _run(self._host, call, *args, **named)


async def _run(
    limiter: CapacityLimiter, call: Callable[P, T], *args: P.args, **named: P.kwargs
) -> T:
    return await to_thread.run_sync(lambda: call(*args, **named), limiter=limiter)
