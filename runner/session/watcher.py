"""Notice that a project's files are saved."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from runner.archive import Survey, snapshot
from runner.archive.inotify import Wakeup
from runner.session.project import build_file, folder_project
from runner.store import outputs
from runner.store.settings import Settings

QUIET_S, LONGEST_S = 0.05, 1.0
"""A change has settled when nothing follows it for so long, or after so long."""

SHARE = 1 / 50
"""How much of a processor's time looking at files may take, at most."""

LEAST_S, BACKSTOP_S = 0.2, 30.0
"""How often files are looked at where nothing wakes the watcher, and where it is woken.

Of changes on a network's file system by another machine nothing wakes it.
"""


class Watcher:
    """Follows, in a thread, the files of a project that would be sent."""

    def __init__(self, survey: Callable[[], Survey], build_file: Path) -> None:
        self._survey, self._build_file = survey, build_file
        self.folder = build_file.parent
        self._wakeup, self._over = Wakeup(), threading.Event()
        self._dirty, self._settled = threading.Event(), threading.Event()
        self._lock, self._took_s = threading.Lock(), 0.0
        self._failure: Exception | None = None
        self._latest = self._reported = self._look()
        self._woken = self._wakeup.watch(self._latest.folders)
        # What changed before the folders were watched.
        self._latest = self._reported = self._look()
        self._saved: Callable[[], None] = lambda: None
        self._thread = threading.Thread(
            target=self._follow, name="rai-watch", daemon=True
        )

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

    def call(self, saved: Callable[[], None]) -> None:
        """Call this, in some thread, at the first sign of a change from now on.

        It is called at once if there was one since ``changes`` was.
        """
        self._saved = saved
        if self._dirty.is_set():
            saved()

    def wait(self, timeout_s: float) -> bool:
        """Wait until a change has settled; return whether one has."""
        return self._settled.wait(timeout_s)

    def changes(self) -> list[str]:
        """Return the files that changed since the last call.

        Raise what made this unable to look any more.
        """
        if self._failure is not None:
            raise self._failure
        with self._lock:
            self._settled.clear()
            self._dirty.clear()
            latest, before = self._latest, self._reported
            self._reported = latest
        return [_shown(path, self.folder) for path in snapshot.changed(before, latest)]

    def _look(self) -> snapshot.Snapshot:
        return snapshot.take(self._survey(), self._build_file)

    def _follow(self) -> None:
        try:
            while not self._over.is_set():
                if self._changed(self._interval_s()):
                    self._saved()
                    self._settle()
                    self._settled.set()
                else:
                    # Ignored files come and go, of which there may be many for long.
                    self._over.wait(min(self._took_s / SHARE, LONGEST_S))
        except Exception as error:
            self._failure = error
            self._settled.set()

    def _settle(self) -> None:
        began = time.monotonic()
        while self._changed(QUIET_S) and time.monotonic() - began < LONGEST_S:
            pass

    def _interval_s(self) -> float:
        return BACKSTOP_S if self._woken else max(LEAST_S, self._took_s / SHARE)

    def _changed(self, wait_s: float) -> bool:
        """Wait for a change of what is sent, for about ``wait_s`` at most."""
        self._wakeup.wait(wait_s)
        return self._stale() and self._differs()

    def _stale(self) -> bool:
        began = time.thread_time()
        stale = not self._over.is_set() and self._latest.stale()
        self._took_s = time.thread_time() - began
        return stale

    def _differs(self) -> bool:
        """Look at the files; return whether what is sent has changed."""
        found = self._look()
        self._woken = self._wakeup.watch(found.folders)
        with self._lock:
            differs = bool(snapshot.changed(self._latest, found))
            self._latest = found
            if differs:
                self._dirty.set()
        return differs


def watcher(path: Path, settings: Settings, output: Path | None) -> Watcher:
    """Watch the project of a run; ``output`` is where its build folder goes.

    Raises:
        UsageError: there is no build file.
    """
    file = build_file(path.resolve())

    def found() -> Survey:
        # Anew each time: what rai unpacked into the project since stays apart too.
        sent = folder_project(file.parent, settings).survey()
        return sent if output is None else _without(outputs.place(output), sent)

    return Watcher(found, file)


def _without(output: Path, found: Survey) -> Survey:
    """Return what was found without a build folder, also while it is unpacked."""
    try:
        *above, last = output.relative_to(found.project.resolve()).parts
    except ValueError:
        return found

    def built(name: str) -> bool:
        parts = name.split("/")
        rest = parts[len(above) :]
        beside = rest and parts[: len(above)] == above
        return bool(beside) and (rest[0] == last or rest[0].startswith(f".{last}."))

    kept = (member for member in found.members if not built(member.name))
    return replace(found, members=tuple(kept))


def _shown(path: Path, project: Path) -> str:
    return str(path.relative_to(project) if path.is_relative_to(project) else path)
