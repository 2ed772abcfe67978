"""Which process runs a run: claimed once, by its holder.json and the lock on that file.

The lock is the kernel's: it goes with the process that holds it. What the file says is
needed where no lock tells: on file systems without locks, and on another machine.
"""

from __future__ import annotations

import os
import platform
import secrets
import time
from enum import StrEnum
from pathlib import Path
from typing import Self

from msgspec import Struct, json

from runner.core.errors import UsageError
from runner.store.paths import RunPaths
from runner.system import files, machine
from runner.system.locks import lock
from runner.system.machine import ProcessIdentity

HERE, SERVER = "here", "server"
MOST_BYTES = 4096
GRACE_S = 60.0
"""How long a run may stay without a holder, or with one that is being written."""


class RunHolder(Struct, frozen=True):
    """The process that runs a run.

    ``run`` is the run's id: a copy of the folder, under another name, has no holder.
    ``on`` is the machine's name for people. ``locked`` says whether the process could
    lock the file. Of a run at another ``place``, ``process`` is the one that handed it
    over, ``url`` the address of that place, ``team`` whose run it is there.
    """

    run: str
    on: str
    process: ProcessIdentity
    locked: bool
    place: str = HERE
    url: str = ""
    team: str = ""


class Standing(StrEnum):
    """Whether a process runs a run."""

    ALIVE = "alive"
    GONE = "gone"
    NOT_CLAIMED = "not claimed"
    WAITS = "waits"
    """It was handed to another place, which has not begun it."""

    ELSEWHERE = "elsewhere"
    """Its holder is at another place, and cannot be looked up from this machine."""


class ClaimedError(UsageError):
    """Somebody else holds the run already."""


class Claim:
    """This process's hold of a run, until it is closed or the process ends."""

    _file = -1

    def __init__(self, paths: RunPaths, on: str = "") -> None:
        """Claim a run's folder; ``on`` is this machine's name, if it has another here.

        Raises:
            ClaimedError: it was claimed before, by whomever.
        """
        # Locked before it has its name, so that no reader sees it without the lock.
        new = paths.root / f".{paths.holder.name}.{secrets.token_hex(4)}"
        # The group may read it: in a home that is shared its lock tells a server.
        self._file = os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o640)
        try:
            here, process = on or platform.node(), machine.this_process()
            locked = bool(lock(self._file))
            holder = RunHolder(paths.id, here, process, locked)
            os.write(self._file, json.encode(holder) + b"\n")
            if not files.name_once(new, paths.holder):
                raise ClaimedError(f"another process claimed run {paths.id} before")
        except BaseException:
            self.close()
            raise
        finally:
            new.unlink(missing_ok=True)

    def close(self) -> None:
        """Release the hold; nobody else can claim the run."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def hand_over(
    paths: RunPaths, place: str, url: str, on: str, team: str, run: str = ""
) -> None:
    """Name another place as the holder of a run, which this process has claimed.

    ``run`` is its id where the folder does not have its name yet.
    """
    process = machine.this_process()
    handed = RunHolder(run or paths.id, on, process, False, place, url, team)
    files.write(paths.holder, json.encode(handed) + b"\n")


def holder(paths: RunPaths) -> RunHolder | None:
    """Return who claimed the run; None if nobody did, or the file is damaged."""
    return files.read_json(paths.holder, MOST_BYTES, RunHolder)


def standing(paths: RunPaths) -> Standing:
    """Return whether a process runs the run.

    On this machine the lock decides. Where the file system has none, the process is
    looked up by its number and the time of its start.
    """
    try:
        handle = files.descriptor(paths.root, paths.holder.name)
    except FileNotFoundError:
        return Standing.NOT_CLAIMED
    except OSError:  # no file of rai: a pipe, a device, a folder
        return _unknown(paths)
    free = lock(handle, shared=True)
    os.close(handle)
    if free is False:
        return Standing.ALIVE
    found = holder(paths)
    if found is None:
        return _unknown(paths)
    if found.run != paths.id:
        return Standing.GONE
    if found.place != HERE:
        return Standing.ELSEWHERE
    process, me = found.process, machine.this_process()
    if process.boot != me.boot:
        # The same machine was started again since; of another one nothing is known.
        return Standing.GONE if process.host == me.host else Standing.ELSEWHERE
    if found.locked and free:  # one kernel, whose lock would be held
        return Standing.GONE
    if process.is_within_reach_of(me):
        return Standing.ALIVE if machine.is_alive(process) else Standing.GONE
    return Standing.ELSEWHERE


def _unknown(paths: RunPaths) -> Standing:
    """Decide where holder.json tells nothing: it may just be written."""
    young = age_s(paths.holder) < GRACE_S
    return Standing.ALIVE if young else Standing.GONE


def age_s(path: Path) -> float:
    """Return how long ago a file was changed; infinity if it is not there.

    A time far in the future, after the clock was set back, counts as long ago, so that
    nobody waits for it; one in the near future, by another machine's clock, as now.
    """
    try:
        changed_s = time.time() - path.stat().st_mtime
    except OSError:
        return float("inf")
    return max(changed_s, 0.0) if changed_s >= -GRACE_S else float("inf")
