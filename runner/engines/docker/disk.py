"""A watch over what a run writes to the engine's disk.

No quota exists on most engines' file systems, so what is written between two looks
may overshoot the limit.
"""

from __future__ import annotations

import contextlib
import threading
import time

from runner.engines.docker.client import FAILURES, Client
from runner.model import Profile, Workspace

FIRST_LOOK_S = 1.0
INTERVAL_S = 3.0
SHARE = 20
"""Looking takes at most one part in so many of the time."""


class DiskWatch:
    """Looks at the size of a run's writable places every few seconds."""

    def __init__(self, client: Client, container: str, work: Workspace) -> None:
        self._client, self._container = client, container
        self._limit = work.limits.disk_bytes
        self._open_root = work.profile is Profile.COMPATIBLE
        self._full = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def full(self) -> bool:
        """Whether more than the limit was seen."""
        return self._full.is_set()

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()

    def _watch(self) -> None:
        pause = FIRST_LOOK_S
        while not self._ended.wait(pause):
            began = time.monotonic()
            with contextlib.suppress(ValueError, *FAILURES):
                if self._used() > self._limit:
                    self._full.set()
                    return
            pause = max(INTERVAL_S, SHARE * (time.monotonic() - began))

    def _used(self) -> int:
        return self._folders() + (self._root_layer() if self._open_root else 0)

    def _folders(self) -> int:
        places = ["/build", "/src"] if self._open_root else ["/build"]
        made = self._client.exec_create(
            self._container, ["du", "-skx", *places], stderr=False
        )
        said: bytes = self._client.exec_start(made["Id"])
        return sum(int(line.split()[0]) for line in said.splitlines()) * 1024

    def _root_layer(self) -> int:
        filters = {"id": self._container}
        found = self._client.containers(filters=filters, size=True)
        return int(found[0].get("SizeRw", 0)) if found else 0
