"""Processes that run one run each, apart from their clients, and what all do."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import FrameType

from runner import files
from runner.core import RunRequest, State, record
from runner.core.cancel import Cancel
from runner.core.errors import RaiError
from runner.core.request import MOST_BYTES, from_json
from runner.report import verdicts
from runner.store import sealed
from runner.store.paths import RunPaths


def order_of(paths: RunPaths) -> RunRequest:
    """Return what is asked of a run by its folder's order, and remove that file.

    It may have secrets.

    Raises:
        RaiError: there is none that can be read.
    """
    try:
        asked = from_json(files.read_below(paths.root, paths.order.name, MOST_BYTES))
    except (OSError, ValueError) as error:
        text = f"the order of run {paths.id} cannot be read: {error}"
        raise RaiError(text) from error
    paths.order.unlink()
    return asked


def refuse(paths: RunPaths, error: RaiError) -> None:
    """Record a run that could not begin, where nobody waits for an answer."""
    begun = None if paths.events.exists() else sealed.begun(paths)
    if begun is None:
        return
    ended = record.end(begun, State.DONE, time.time(), verdicts.from_error(error))
    files.write_once(paths.record, record.to_json(ended))


def cancel_on_signals(cancel: Cancel, told: Callable[[], None] | None = None) -> None:
    """Cancel at signals that end a process, but for a terminal's end.

    ``told`` is called at each in place of that.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        (told or cancel.request)()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, stop)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
