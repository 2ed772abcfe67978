"""Ctrl-C, or a closed terminal, while something is under way that can end cleanly."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from runner.core.cancel import Cancel
from runner.terminal.console import Console

ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)


@contextmanager
def heeded(cancel: Cancel, console: Console) -> Iterator[None]:
    """Let the first Ctrl-C, TERM or QUIT end it cleanly, and the second at once.

    HUP, which a closed terminal sends, ends it cleanly too. HUP and QUIT stay ignored
    where they were, as under nohup.
    """
    asked = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        cancel.request()
        console.line("Stopping; press Ctrl-C again to quit now.", "yellow")

    def hang_up(number: int, frame: FrameType | None) -> None:
        # A shell and the kernel both send it, so a second one asks for nothing more,
        # even after this; nobody is left to read a line.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        cancel.request()

    handlers = {**dict.fromkeys(ASKING, stop), signal.SIGHUP: hang_up}
    for number in (signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            del handlers[number]
    before = {s: signal.signal(s, handler) for s, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, handler)
