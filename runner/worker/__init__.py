"""Processes that run one run each, apart from their clients, and what all do."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import FrameType

from runner import files, session
from runner.core import State, record
from runner.core.cancel import Cancel
from runner.core.errors import RaiError
from runner.core.order import MOST_BYTES, Order, from_line
from runner.core.variables import Secrets
from runner.engines import Choice
from runner.report import verdicts
from runner.session import Options
from runner.session.run import Run
from runner.store import sealed
from runner.store.claim import Claim
from runner.store.paths import RunPaths


def resume(
    paths: RunPaths, claim: Claim, order: Order, choice: Choice | None = None
) -> Run:
    """Begin the run of an order; ``choice`` is the client's, if it made one.

    Raises:
        RaiError: as for ``session.resume``.
    """
    options = Options(
        secrets=Secrets(order.secrets),
        allowed=order.allowed,
        gpus_out=order.gpus_out,
    )
    return session.resume(paths, claim, options, order.spec_text, choice)


def order_of(paths: RunPaths) -> Order:
    """Return the order in a run's folder, and remove it: it may have secrets.

    Raises:
        RaiError: there is none that can be read.
    """
    try:
        order = from_line(files.read_below(paths.root, paths.order.name, MOST_BYTES))
    except (OSError, ValueError) as error:
        text = f"the order of run {paths.id} cannot be read: {error}"
        raise RaiError(text) from error
    paths.order.unlink()
    return order


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
