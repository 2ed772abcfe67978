"""Notice that a project's files are saved."""

from __future__ import annotations

import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import watchfiles
from msgspec.structs import replace

from runner.execution.project import build_file, folder_project
from runner.pack.contents import MemberKind, Survey
from runner.store import outputs
from runner.store.settings import Settings

QUIET_MS, LONGEST_MS = 50, 1000
"""A change has settled when nothing follows it for so long, or after so long."""

SHARE = 1 / 50
"""How much of a processor's time looking at files may take while none is saved."""

TRIES = 5

Changes = set[tuple[watchfiles.Change, str]]
Signature = tuple[int, ...]


class Watcher:
    """Follows, in a thread, the files of a project that would be sent.

    Only the folders of these are watched: none that is ignored, and none behind a link.
    Of changes on a network's file system by another machine it learns nothing.
    """

    def __init__(self, survey: Callable[[], Survey], build_file: Path) -> None:
        self._survey, self._build_file = survey, build_file
        self.folder = build_file.parent
        self._over, self._settled = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._failure: Exception | None = None
        self._files: Mapping[Path, Signature] = {}
        self._folders: set[Path] = set()
        self._watched: set[Path] = set()
        self._batches: Iterator[Changes] = iter(())
        self._changed: set[Path] = set()
        self._saved: Callable[[], None] = lambda: None
        self._thread = threading.Thread(
            target=self._follow, name="rai-watch", daemon=True
        )

    def __enter__(self) -> Self:
        self._look()
        self._begin()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def call(self, saved: Callable[[], None]) -> None:
        """Call this, in some thread, at the first change from now on.

        It is called at once if there was one since ``changes`` was.
        """
        self._saved = saved
        if self._settled.is_set():
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
            changed, self._changed = self._changed, set()
        folder = self.folder
        return [
            str(path.relative_to(folder) if path.is_relative_to(folder) else path)
            for path in sorted(changed)
        ]

    def _begin(self) -> None:
        """Watch the folders that there are now."""
        for _ in range(TRIES):
            watched = self._folders
            for polling in (False, True):
                try:
                    self._batches = self._watch(watched, polling=polling)
                    next(self._batches)  # after a moment, when they are watched
                except FileNotFoundError:  # one is gone since the last look
                    break
                except (OSError, RuntimeError):  # too many folders for the system
                    if polling:
                        raise
                else:
                    self._watched = watched
                    self._note()  # what changed before they were watched
                    return
            self._note()
        raise OSError(f"folders of {self.folder} come and go too fast")

    def _watch(self, folders: set[Path], *, polling: bool) -> Iterator[Changes]:
        return watchfiles.watch(
            *folders,
            watch_filter=None,
            debounce=LONGEST_MS,
            step=QUIET_MS,
            stop_event=self._over,
            rust_timeout=QUIET_MS,
            yield_on_timeout=True,
            force_polling=polling or None,
            recursive=False,
        )

    def _follow(self) -> None:
        try:
            while self._folders and not self._over.is_set():
                if self._folders != self._watched:
                    self._begin()
                batch = next(self._batches, None)
                if batch or not self.folder.is_dir():
                    began = time.thread_time()
                    if not self._note():
                        # Ignored files come and go, of which there may be many.
                        took_s = time.thread_time() - began
                        self._over.wait(min(took_s / SHARE, LONGEST_MS / 1000))
        except Exception as error:
            self._failure = error
            self._settled.set()

    def _note(self) -> bool:
        """Look at the files; keep what changed of what is sent, if anything did."""
        changed = self._look()
        if changed:
            with self._lock:
                self._changed |= changed
                self._settled.set()
            self._saved()
        return bool(changed)

    def _look(self) -> set[Path]:
        """Return the files that changed since the last look.

        A project that is gone has neither files nor folders.
        """
        found = self._survey()
        kinds = {found.project / one.name: one.kind for one in found.members}
        kinds[found.project] = MemberKind.FOLDER
        folders = {path for path, kind in kinds.items() if kind is MemberKind.FOLDER}
        self._folders = {path for path in folders if path.is_dir()}
        files = {self._build_file, *(kinds.keys() - folders)}
        before, self._files = self._files, {path: _signature(path) for path in files}
        both = before.keys() | self._files.keys()
        return {path for path in both if before.get(path) != self._files.get(path)}


def _signature(path: Path) -> Signature:
    """Return what changes with a file; () for what is not there."""
    try:
        found = path.lstat()
    except OSError:
        return ()
    kind, executable = stat.S_IFMT(found.st_mode), found.st_mode & stat.S_IXUSR
    return (kind, executable, found.st_ino, found.st_size, found.st_mtime_ns)


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
