"""Notice that a project's files are saved."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
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

Changes = set[tuple[watchfiles.Change, str]]


class Watcher:
    """Follows, in a thread, the files of a project that would be sent.

    Of changes on a network's file system by another machine it learns nothing.
    """

    def __init__(self, survey: Callable[[], Survey], build_file: Path) -> None:
        self._survey, self._build_file = survey, build_file
        self.folder = build_file.parent
        self._over, self._settled = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._failure: Exception | None = None
        self._files: set[Path] = set()
        self._changed: set[Path] = set()
        self._saved: Callable[[], None] = lambda: None
        self._thread = threading.Thread(
            target=self._follow, name="rai-watch", daemon=True
        )

    def __enter__(self) -> Self:
        # What it yields first, after a moment, says that the folders are watched.
        try:
            self._batches = self._watch()
            next(self._batches)
        except (OSError, RuntimeError):  # too many folders for the system
            self._batches = self._watch(polling=True)
            next(self._batches)
        self._files = self._look()
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

    def _watch(self, *, polling: bool = False) -> Iterator[Changes]:
        return watchfiles.watch(
            self.folder,
            watch_filter=None,
            debounce=LONGEST_MS,
            step=QUIET_MS,
            stop_event=self._over,
            rust_timeout=QUIET_MS,
            yield_on_timeout=True,
            force_polling=polling or None,
            ignore_permission_denied=True,
        )

    def _look(self) -> set[Path]:
        """Return the files that would be sent, and the build file."""
        found = self._survey()
        kept = (one for one in found.members if one.kind is not MemberKind.FOLDER)
        return {self._build_file, *(found.project / one.name for one in kept)}

    def _follow(self) -> None:
        try:
            for batch in self._batches:
                if batch or not self.folder.exists():
                    self._note({Path(name) for _, name in batch})
        except Exception as error:
            self._failure = error
            self._settled.set()

    def _note(self, touched: set[Path]) -> None:
        """Keep what changed of what is sent, if anything did."""
        before, self._files = self._files, self._look()
        changed = (before ^ self._files) | (touched & self._files)
        if not changed:
            return
        with self._lock:
            self._changed |= changed
            self._settled.set()
        self._saved()


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
