"""End cleanly after Ctrl-C, another signal, or a closed terminal."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from runner.core.cancel import Cancel
from runner.terminal.console import Console

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)


@contextmanager
def cancel_on_signals(
    cancel: Cancel, console: Console, silent: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    """Request a cancel on the first Ctrl-C, TERM or QUIT; interrupt on the second.

    HUP, which a closed terminal sends, requests a cancel too. HUP and QUIT stay ignored
    if they were, as under nohup. While ``silent``, nothing is said of a cancel.
    """
    stopping = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopping
        if stopping:
            raise KeyboardInterrupt
        stopping = True
        cancel.request()
        if not silent():
            # It may come while stderr is written, which no other write may enter.
            with suppress(RuntimeError):
                console.line("Stopping; press Ctrl-C again to quit now.", "yellow")

    def hang_up(number: int, frame: FrameType | None) -> None:
        # The shell and the kernel both send it, so ignore the second one, even later.
        # Nobody is left to read a line.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        cancel.request()

    handlers = {**dict.fromkeys(STOP_SIGNALS, stop), signal.SIGHUP: hang_up}
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
