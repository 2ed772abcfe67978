"""Processes that carry out runs apart from their clients, and what all do."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType

from runner import session
from runner.core.cancel import Cancel
from runner.core.order import Order
from runner.core.variables import Secrets
from runner.engines import Choice
from runner.session import Options
from runner.session.run import Run
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


def cancel_on_signals(cancel: Cancel, told: Callable[[], None] | None = None) -> None:
    """Cancel at signals that end a process, but for a terminal's end.

    ``told`` is called at each in place of that.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        (told or cancel.request)()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, stop)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
