"""Lock this machine's GPUs: one file for each UUID, locked while a run uses it.

The kernel releases a ``flock`` when its holder dies. All users of the machine must use
the same files, so the folder depends on the machine alone: the first of LOCK_FOLDERS in
which everybody may make files. In such a sticky folder the kernel
(``fs.protected_regular``) refuses O_CREAT on another user's file, so a file is first
opened without it. Links are not followed, since anybody can make one there. A container
has its own folder: runs inside and outside of it do not see each other.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from json import dumps, loads
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

from runner.core import Gpu, Problem, Reason
from runner.core.errors import BusyError, EngineError
from runner.machine import user

LOCK_FOLDERS = (Path("/run/lock"), Path("/var/lock"), Path("/tmp"))
NAME = "rai-gpu"
ALL_MAY_MAKE = 0o1777
ALL_MAY_WRITE = 0o666
PATIENCE_S = 1.0
MOST_BYTES = 1024
"""What a holder writes about itself has a tenth of this."""


class Holder(Struct, frozen=True):
    """Who holds a GPU; ``since`` is in seconds since the epoch."""

    run: str
    user: str
    pid: int
    since: float

    def __str__(self) -> str:
        clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        return f"run {self.run} of {self.user} (process {self.pid}) since {clock}"


@contextmanager
def hold(gpu: Gpu, run_id: str, folder: Path | None = None) -> Iterator[None]:
    """Keep a GPU, or a slice, for one run among those of all users of this machine.

    Child processes do not inherit the lock, and two runs of one process exclude each
    other too.

    Raises:
        BusyError: another run holds it; the message names that run.
        EngineError: the lock's file cannot be opened.
    """
    place = folder or shared_folder()
    file = _locked(gpu, place)
    try:
        _write(file, Holder(run_id, user(), os.getpid(), time.time()))
        yield
    finally:
        os.ftruncate(file, 0)
        # A forked process may have a copy of the descriptor, so closing is not enough.
        fcntl.flock(file, fcntl.LOCK_UN)
        os.close(file)


def shared_folder() -> Path:
    """Return the folder for the locks of all users of this machine."""
    for place in LOCK_FOLDERS:
        with suppress(OSError):
            mode = place.stat().st_mode
            if stat.S_ISDIR(mode) and mode & ALL_MAY_MAKE == ALL_MAY_MAKE:
                return place / NAME
    return LOCK_FOLDERS[-1] / NAME


def _locked(gpu: Gpu, place: Path) -> int:
    """Return the descriptor of the GPU's locked file, which still has its name."""
    path = place / (re.sub(r"[^\w-]", "_", gpu.uuid) + ".lock")
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            file = _open(path)
        except OSError as error:
            # Another user may be about to make it writable for all.
            if time.monotonic() > deadline:
                raise _unusable(path, error) from error
            time.sleep(0.01)
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _still_named(file, path):
                return file
        except BlockingIOError:
            held = _read(file)
            os.close(file)
            raise BusyError(_busy(gpu, held)) from None
        os.close(file)


def _open(path: Path) -> int:
    """Open a lock's file of any user, or make it."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with suppress(FileExistsError):
        path.parent.mkdir()
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        _allow(folder, ALL_MAY_MAKE)
        try:
            file = os.open(path.name, flags, dir_fd=folder)
        except FileNotFoundError:
            new = flags | os.O_CREAT | os.O_EXCL
            file = os.open(path.name, new, ALL_MAY_WRITE, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        _refuse_link(file)
        _allow(file, ALL_MAY_WRITE)
    except OSError:
        os.close(file)
        raise
    return file


def _refuse_link(file: int) -> None:
    """Raise OSError if it is a hard link or not a regular file."""
    facts = os.fstat(file)
    if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:
        raise OSError("it is a link, or not a regular file")


def _allow(file: int, mode: int) -> None:
    """Set the mode of a file that this user made, whatever the umask was."""
    facts = os.fstat(file)
    if facts.st_uid == os.geteuid() and stat.S_IMODE(facts.st_mode) != mode:
        os.fchmod(file, mode)


def _still_named(file: int, path: Path) -> bool:
    """Whether the file was not removed before it was locked."""
    try:
        now = path.lstat()
    except FileNotFoundError:
        return False
    return os.path.samestat(now, os.fstat(file))


def _write(file: int, holder: Holder) -> None:
    os.ftruncate(file, 0)
    os.pwrite(file, dumps(asdict(holder)).encode(), 0)


def _read(file: int) -> Holder | None:
    """Return what the holder wrote about itself; None if it is malformed.

    Any user may have written it, so numbers may be out of range and nesting deep.
    """
    with suppress(ValueError, TypeError, OSError, ArithmeticError, RecursionError):
        holder = Holder(**loads(os.pread(file, MOST_BYTES, 0)))
        if str(holder).isprintable():
            return holder
    return None


def _busy(gpu: Gpu, held: Holder | None) -> Problem:
    who = f"held by {held}" if held else "held by another run"
    return Problem(f"GPU {gpu.index} ({gpu.name}, {gpu.uuid}) is {who}")


def _unusable(path: Path, error: OSError) -> EngineError:
    return EngineError(
        Problem(
            f"the GPU's lock {path} cannot be opened: {error.strerror or error}",
            hint=f"ask its owner to remove {path.parent}, or make it writable for all"
            " (mode 1777, its files 666)",
        ),
        reason=Reason.GPU_ERROR,
    )
