"""A request to stop, seen by whoever runs something."""

from __future__ import annotations

import threading


class Cancel:
    """Set once, from a signal handler or another thread; read by engines."""

    def __init__(self, above: Cancel | None = None) -> None:
        """Make one that is requested too when ``above`` is."""
        self._event, self._above = threading.Event(), above
        self.why = "stopped on request"

    def request(self, why: str = "") -> None:
        """Ask for the run to end cleanly; the record says why."""
        self.why = why or self.why
        self._event.set()

    @property
    def requested(self) -> bool:
        """Whether somebody asked the run to end."""
        above = self._above is not None and self._above.requested
        return above or self._event.is_set()
