"""A request to stop, seen by whoever runs something."""

from __future__ import annotations

import threading


class Cancel:
    """Set once, from a signal handler or another thread; read by engines."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def request(self) -> None:
        """Ask for the run to end cleanly."""
        self._event.set()

    @property
    def requested(self) -> bool:
        """Whether somebody asked the run to end."""
        return self._event.is_set()
