"""Asking again where a server was not reached."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from runner.remote.problems import UnreachableError

FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 10.0

_Result = TypeVar("_Result")


class Patience(Struct, frozen=True):
    """How long to ask again after a server was not reached, and who is told why.

    While a laptop sleeps no time passes.
    """

    seconds: float = 0.0
    told: Callable[[UnreachableError], None] | None = None


NONE = Patience()


class Backoff:
    """Pauses that grow from attempt to attempt."""

    def __init__(self) -> None:
        self._pause_s = FIRST_PAUSE_S

    def restart(self) -> None:
        """Begin anew with the shortest pause."""
        self._pause_s = FIRST_PAUSE_S

    def next_s(self) -> float:
        """Return how long to pause now, and let the next pause be longer."""
        # So that many clients do not come back in the same moment.
        pause_s = self._pause_s * random.uniform(0.5, 1.0)
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        return pause_s


class Pauses:
    """The pauses between attempts, up to the end of one's patience."""

    def __init__(self, patience: Patience) -> None:
        self._patience, self._backoff = patience, Backoff()
        self.restart()

    def restart(self) -> None:
        """Note that something got on: patience and pauses begin anew."""
        self._by = time.monotonic() + self._patience.seconds
        self._backoff.restart()

    def wait(self, error: UnreachableError) -> None:
        """Pause after an error; raise it if it is the last one."""
        left = self._by - time.monotonic()
        if left <= 0:
            raise error
        if self._patience.told is not None:
            self._patience.told(error)
        time.sleep(min(self._backoff.next_s(), left))


def until_reached(call: Callable[[], _Result], patience: Patience) -> _Result:
    """Return what a call returns; repeat it where the server is not reached."""
    pauses = Pauses(patience)
    while True:
        try:
            return call()
        except UnreachableError as error:
            pauses.wait(error)
