"""Notice that a project's files are saved.

Linux's inotify, where it serves, only wakes the watcher, which looks at what changed.
So an event that is lost or of no interest does no harm. A package would bring more than
these calls: watchfiles an event loop of its own and anyio, watchdog a thread for each
folder tree.
"""

from __future__ import annotations

import ctypes
import os
import select
import stat
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from runner.pack.contents import MemberKind, Survey
from runner.run.project import build_file, folder_project
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

Signature = tuple[int, ...]
"""It ends with the time of the last change; () for what is not there."""

TICK_NS, LATER_NS = 2 * 10**7, 10**9
"""How far apart changes surely get different times; how long a look may take."""

MODIFY, ATTRIB, CLOSE_WRITE, MOVED, CREATE, DELETE = 0x2, 0x4, 0x8, 0xC0, 0x100, 0x200
MOVE_SELF, DELETE_SELF, ONLY_FOLDERS = 0x800, 0x400, 0x01000000
ALL = MODIFY | ATTRIB | CLOSE_WRITE | MOVED | CREATE | DELETE | MOVE_SELF | DELETE_SELF
_LINUX = sys.platform == "linux"


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
        return [_shown(path, self.folder) for path in changed_files(before, latest)]

    def _look(self) -> Snapshot:
        return taken(self._survey(), self._build_file)

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
            differs = bool(changed_files(self._latest, found))
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


class Snapshot(Struct, frozen=True):
    """The files that would be sent, and all folders that may hold such files.

    ``taken_ns`` is when the first of them was looked at.
    """

    files: Mapping[Path, Signature]
    folders: Mapping[Path, Signature]
    taken_ns: int

    def stale(self) -> bool:
        """Whether a file or a folder may have changed: what is sent may be another."""
        both = (*self.files.items(), *self.folders.items())
        return any(_signature(p) != old or self._unsettled(old) for p, old in both)

    def _unsettled(self, signature: Signature) -> bool:
        """Whether it changed so late that a later change may have the same time."""
        return (
            bool(signature) and 0 <= signature[-1] - self.taken_ns + TICK_NS < LATER_NS
        )


def taken(found: Survey, build_file: Path) -> Snapshot:
    """Return when what was found, and the build file, was changed last.

    A project that is gone has no files.
    """
    kinds = {found.project / member.name: member.kind for member in found.members}
    files = [path for path, kind in kinds.items() if kind is not MemberKind.FOLDER]
    folders = [path for path, kind in kinds.items() if kind is MemberKind.FOLDER]
    taken_ns = time.time_ns()
    return Snapshot(
        {path: _signature(path) for path in (build_file, *files)},
        {path: _signature(path) for path in (found.project, *folders)},
        taken_ns,
    )


def changed_files(before: Snapshot, after: Snapshot) -> list[Path]:
    """Return the files that differ, and those that only one of the two has."""
    paths = before.files.keys() | after.files.keys()
    return sorted(p for p in paths if before.files.get(p) != after.files.get(p))


def _signature(path: Path) -> Signature:
    """Return what changes with a file; a folder's changes with the names in it."""
    try:
        found = os.lstat(path)
    except OSError:
        return ()
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFDIR:
        return (kind, found.st_ino, found.st_mtime_ns)
    executable = found.st_mode & stat.S_IXUSR
    return (kind, executable, found.st_ino, found.st_size, found.st_mtime_ns)


class Wakeup:
    """Wakes when something changes in the folders that it was given last."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True) if _LINUX else None
        self._events = -1
        self._watched: dict[str, int] = {}
        self._told, self._tell = os.pipe()
        if self._libc is not None:
            self._events = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)

    def watch(self, folders: Collection[Path]) -> bool:
        """Watch these folders alone; return False if it cannot watch all of them."""
        if self._libc is None or self._events < 0:
            return False
        wanted = {str(folder) for folder in folders}
        for gone in self._watched.keys() - wanted:
            self._libc.inotify_rm_watch(self._events, self._watched.pop(gone))
        for folder in wanted:
            # Again for one that is watched: another folder may have its name by now.
            name, mask = os.fsencode(folder), ALL | ONLY_FOLDERS
            number = self._libc.inotify_add_watch(self._events, name, mask)
            if number >= 0:
                self._watched[folder] = number
        return len(self._watched) == len(wanted)

    def wait(self, timeout_s: float) -> bool:
        """Wait for a change, for a time at most; return whether there was one."""
        ready, _, _ = select.select(
            [fd for fd in (self._events, self._told) if fd >= 0], [], [], timeout_s
        )
        if self._events not in ready:
            return False
        with suppress(BlockingIOError):
            while os.read(self._events, 1 << 16):
                pass
        return True

    def interrupt(self) -> None:
        """Let ``wait`` return, from another thread."""
        os.write(self._tell, b"x")

    def close(self) -> None:
        """Watch nothing any more."""
        for number in (self._events, self._told, self._tell):
            if number >= 0:
                os.close(number)
