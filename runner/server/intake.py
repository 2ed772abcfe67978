"""Bound the memory of large requests: how many are read and looked at at a time.

A body of a few MiB may become many times that as values, and one person may have
hundreds of requests under way.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyio import CapacityLimiter

READ_OF_TEAM = 4
"""A team's own bodies only wait for each other: one that trickles holds up no other."""

PARSED = 2


class Intake:
    """Turns for reading bodies, and for what is done with their values."""

    def __init__(self) -> None:
        self._teams: dict[str, CapacityLimiter] = {}
        self._parsing = CapacityLimiter(PARSED)

    @asynccontextmanager
    async def reading(self, team: str) -> AsyncIterator[None]:
        """Wait for one of the team's turns to read a body and keep it."""
        turns = self._teams.setdefault(team, CapacityLimiter(READ_OF_TEAM))
        try:
            async with turns:
                yield
        finally:
            left = turns.statistics()
            if not left.borrowed_tokens and not left.tasks_waiting:
                self._teams.pop(team, None)

    @asynccontextmanager
    async def parsing(self) -> AsyncIterator[None]:
        """Wait for one of the turns to parse a body that was read, and use it."""
        async with self._parsing:
            yield
