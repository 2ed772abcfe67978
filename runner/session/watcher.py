"""Notice that a project's files are saved."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from runner.archive import snapshot
from runner.archive.inotify import Wakeup

QUIET_S, LONGEST_S = 0.05, 1.0
"""A change has settled when nothing follows it for so long, or it has gone on so long."""

SHARE = 1 / 50
"""How much of a processor's time looking at files may take, at most."""

LEAST_S, BACKSTOP_S = 0.2, 30.0
"""How often files are looked at where nothing wakes the watcher, and where it is woken.

Of changes on a network's file system by another machine nothing wakes it.
"""


class Watcher:
    """Follows a project's files in a thread; ignored files are nobody's.

    ``saved`` is called, in that thread, at the first sign of a change.
    """

    def __init__(self, project: Path, build_file: Path, stays: Iterable[Path]) -> None:
        self._what = project, build_file, tuple(stays)
        self._wakeup, self._over = Wakeup(), threading.Event()
        self._settled = threading.Event()
        self._took_s = 0.0
        self._latest = self._reported = self._look()
        self._woken = self._wakeup.watch(self._latest.folders)
        # What changed before the folders were watched.
        self._latest = self._reported = self._look()
        self.saved: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._follow, name="rai-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._wakeup.interrupt()
        self._thread.join()
        self._wakeup.close()

    def wait(self, timeout_s: float) -> bool:
        """Wait until a change has settled; return whether one has."""
        return self._settled.wait(timeout_s)

    def changes(self) -> list[str]:
        """Return the files that changed since the last call, relative to the project."""
        self._settled.clear()
        latest, before = self._latest, self._reported
        self._reported = latest
        project = self._what[0]
        paths = snapshot.changed(before, latest)
        return [_shown(path, project) for path in paths]

    def _look(self) -> snapshot.Snapshot:
        began = time.thread_time()
        found = snapshot.take(*self._what)
        self._took_s = time.thread_time() - began
        return found

    def _follow(self) -> None:
        while not self._over.is_set():
            if not self._changed(self._pause_s()):
                continue
            self.saved()
            began = time.monotonic()
            while self._changed(QUIET_S) and time.monotonic() - began < LONGEST_S:
                pass
            self._settled.set()

    def _pause_s(self) -> float:
        return BACKSTOP_S if self._woken else max(LEAST_S, self._took_s / SHARE)

    def _changed(self, wait_s: float) -> bool:
        """Wait for a change of what is sent, for at most ``wait_s``."""
        woken = self._wakeup.wait(wait_s)
        if self._over.is_set() or not (woken or self._latest.stale()):
            return False
        before, self._latest = self._latest, self._look()
        self._woken = self._wakeup.watch(self._latest.folders)
        if found := bool(snapshot.changed(before, self._latest)):
            return found
        # Only ignored files changed, of which many may change for long.
        self._over.wait(self._took_s / SHARE)
        return False


def _shown(path: Path, project: Path) -> str:
    return str(path.relative_to(project) if path.is_relative_to(project) else path)
