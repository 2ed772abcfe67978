"""Watch what a run writes to the engine's disk, with the image's own `du`.

Most engines' file systems have no quota, so a run may exceed the limit until the next
check.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence

from runner.core import Profile, Workspace
from runner.engines.docker.attach import ask
from runner.engines.docker.client import FAILURES, Client, UnusableError, explained
from runner.engines.docker.container import confinement

FIRST_LOOK_S = 1.0
INTERVAL_S = 3.0
LOOK_TIME_S = 30.0
SHARE = 20
"""Measuring takes at most 1/SHARE of the time."""

FAILED_LOOKS = 2
"""Failures in a row that are reported: one may be due to the container's end."""

NO_SIZES = "the image has no `du` that prints sizes; use an image with coreutils"


class ContainerDiskWatch:
    """A thread that measures a run's writable folders every few seconds.

    ``problem`` says why measuring failed, and is empty if it did not.
    """

    def __init__(self, client: Client, container: str, work: Workspace) -> None:
        self._client, self._container = client, container
        self._limit = work.limits.disk_bytes
        self._user = confinement.exec_user(work.profile)
        self._open_root = work.profile is Profile.COMPATIBLE
        self.problem = ""
        self._failed = 0
        self._full = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def full(self) -> bool:
        """Whether the limit was exceeded."""
        return self._full.is_set()

    def start(self) -> None:
        """Start measuring."""
        self._thread.start()

    def stop(self) -> None:
        """Stop measuring."""
        self._ended.set()

    def _watch(self) -> None:
        pause = FIRST_LOOK_S
        while not self._ended.wait(pause):
            began = time.monotonic()
            self._look()
            if self.full:
                return
            pause = max(INTERVAL_S, SHARE * (time.monotonic() - began))
            if self._failed == 1:  # again soon, so that a short run reports it too
                pause = FIRST_LOOK_S

    def _look(self) -> None:
        try:
            if self._used() > self._limit:
                self._full.set()
            self._failed = 0
        except FAILURES as error:
            self._failed += 1
            if self._failed == FAILED_LOOKS:
                self.problem = explained(error)

    def _used(self) -> int:
        # The engine's own measure counts even if the image has no `du`.
        used = self._root_layer() if self._open_root else 0
        return used if used > self._limit else used + self._folders()

    def _folders(self) -> int:
        places = ["/build", "/src"] if self._open_root else ["/build"]
        command = ["du", "-skx", *places]
        text = ask(self._client, self._container, command, LOOK_TIME_S, self._user)
        used = sizes(text, places)
        if used is None:
            raise UnusableError(NO_SIZES)
        return used

    def _root_layer(self) -> int:
        filters = {"id": self._container}
        found = self._client.containers(filters=filters, size=True)
        return int(found[0].get("SizeRw", 0)) if found else 0


def sizes(text: str, places: Sequence[str]) -> int | None:
    """Return the sum in bytes of what `du -sk` prints; None if it is not du's."""
    found = re.findall(r"^([0-9]{1,15})[ \t]+(.+)$", text, flags=re.MULTILINE)
    if [place for _, place in found] != list(places):
        return None
    return sum(int(kilobytes) for kilobytes, _ in found) * 1024
