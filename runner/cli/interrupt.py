"""Ctrl-C while something is under way that ends cleanly when asked."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from runner.core.cancel import Cancel
from runner.terminal.console import Console


@contextmanager
def heeded(cancel: Cancel, console: Console) -> Iterator[None]:
    """Let the first Ctrl-C (or TERM) end it cleanly, and the second at once."""

    def stop(number: int, frame: FrameType | None) -> None:
        if cancel.requested:
            raise KeyboardInterrupt
        cancel.request()
        console.line("Stopping; once more to leave at once.", "yellow")

    before = {s: signal.signal(s, stop) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
