"""A request to stop, seen by whoever runs something."""

from __future__ import annotations

import threading

from runner.core.ending import Reason


class Cancel:
    """Set once, from a signal handler or another thread; read by engines."""

    def __init__(self, above: Cancel | None = None) -> None:
        """Make one that is requested too when ``above`` is."""
        self._event, self._above = threading.Event(), above
        self._end = Reason.CANCELLED, "stopped on request"

    def request(self, why: str = "", reason: Reason = Reason.CANCELLED) -> None:
        """Ask for the run to end cleanly; the record says why."""
        self._end = reason, why or self._end[1]
        self._event.set()

    @property
    def requested(self) -> bool:
        """Whether somebody asked the run to end."""
        above = self._above is not None and self._above.requested
        return above or self._event.is_set()

    @property
    def end(self) -> tuple[Reason, str]:
        """How a run ends for which it was requested, and why it was."""
        return self._end
