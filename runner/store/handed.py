"""Where a run was handed to, and signs of life of who carries it out there.

The file is there before the place is asked for anything, so that whatever is killed
then, somebody finds out what became of the run.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self

from msgspec import Struct, json

from runner import files
from runner.store.paths import RunPaths

MOST_BYTES = 4096
BEAT_S = 2.0


class HandedRun(Struct, frozen=True):
    """A run that was handed to a ``place``, and ``target`` there, such as slurm:gpu.

    ``name`` is the name of its job, ``number`` the number, "" until the place has
    answered. ``run`` is the run's id: a copy of the folder under another name was not
    handed over. ``again`` is whether who handed it over asks again if the place has
    never had it, as a server does.
    """

    run: str
    place: str
    target: str
    name: str
    number: str = ""
    again: bool = False


def write(paths: RunPaths, handed: HandedRun) -> None:
    """Keep where a run was handed to."""
    files.write(paths.handed, json.encode(handed) + b"\n")


def read(paths: RunPaths) -> HandedRun | None:
    """Return where a run was handed to; None if it was not, or the file is damaged."""
    try:
        found = files.read_below(paths.root, paths.handed.name, MOST_BYTES)
        handed = json.decode(found, type=HandedRun)
    except (OSError, ValueError):
        return None
    return handed if handed.run == paths.id else None


class LifeSign:
    """Shows on a shared file system that this process lives, by the time of a file.

    Locks and numbers of processes tell nothing on another machine.
    """

    def __init__(self, *runs: RunPaths) -> None:
        self._files, self._over = [paths.beat for paths in runs], threading.Event()
        self._thread = threading.Thread(target=self._work, name="rai-beat", daemon=True)

    def __enter__(self) -> Self:
        self._touch()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(BEAT_S)

    def _work(self) -> None:
        while not self._over.wait(BEAT_S):
            self._touch()

    def _touch(self) -> None:
        for file in self._files:
            # The file system may be away for a while, or full.
            with suppress(OSError):
                files.stamp(file)


def beat_age_s(paths: RunPaths, now_s: float) -> float:
    """Return how long ago a run's process gave a sign of life; infinity if never.

    ``now_s`` is the file system's time, as ``files.time_there`` returns it.
    """
    changes = [now_s - at for at in map(changed_s, (paths.beat, paths.holder)) if at]
    return max(min(changes), 0.0) if changes else float("inf")


def changed_s(path: Path) -> float:
    """Return when a file was changed by the file system's clock; 0 if it is not there.

    It is opened for that: a network file system then asks its server.
    """
    try:
        with files.open_regular(path) as file:
            return os.fstat(file.fileno()).st_mtime
    except OSError:
        return 0.0
