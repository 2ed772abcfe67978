"""Check limits beside a run whose events are taken slowly."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from runner.core.errors import EngineError

EVERY_S = 1.0
JOIN_S = 5.0


@contextmanager
def checked_beside(check: Callable[[], None]) -> Iterator[None]:
    """Call ``check`` every second, until the block ends.

    A terminal or a pipe that nobody reads stops the process that writes to it. The
    limits of a run's commands must hold meanwhile. What ``check`` raises is left to
    those who call it in the run itself.
    """
    over = threading.Event()

    def watch() -> None:
        while not over.wait(EVERY_S):
            with suppress(EngineError):
                check()

    thread = threading.Thread(target=watch, name="rai-limits", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(JOIN_S)
