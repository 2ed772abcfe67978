"""The locks of this machine's GPUs: one file a UUID, locked while a run has it.

``flock`` ends with its holder, however that ends. All users of the machine must come
to the same files, so the folder follows from the machine alone, not from the user: the
first of LOCK_FOLDERS in which everybody may make files. In such a sticky folder the
kernel (``fs.protected_regular``) refuses O_CREAT on another user's file; so a file is
opened without it first. Links are not followed: anybody may have put one there.
A container has such a folder of its own: runs inside and outside do not see each other.
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
"""What a holder writes of itself has a tenth of it."""


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
    """Keep a GPU, or a slice, for one run of all users' runs on this machine.

    BusyError says who has it; EngineError that the lock's folder cannot be used. No
    child inherits it, and two runs of one process exclude each other too.
    """
    place = folder or shared_folder()
    file = _locked(gpu, place)
    try:
        _write(file, Holder(run_id, user(), os.getpid(), time.time()))
        yield
    finally:
        os.ftruncate(file, 0)
        # A fork may have a copy of the descriptor: closing alone would not free it.
        fcntl.flock(file, fcntl.LOCK_UN)
        os.close(file)


def shared_folder() -> Path:
    """Give the folder in which every user of this machine may lock."""
    for place in LOCK_FOLDERS:
        with suppress(OSError):
            mode = place.stat().st_mode
            if stat.S_ISDIR(mode) and mode & ALL_MAY_MAKE == ALL_MAY_MAKE:
                return place / NAME
    return LOCK_FOLDERS[-1] / NAME


def _locked(gpu: Gpu, place: Path) -> int:
    """Give the descriptor of the GPU's file, locked and still the one of its name."""
    path = place / (re.sub(r"[^\w-]", "_", gpu.uuid) + ".lock")
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            file = _open(path)
        except OSError as error:
            # Another user may be about to open it to all.
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
    """Open a lock's file, made where it is not there, by whomever it was made."""
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
    """Refuse what is no file of this name alone, before anything of it is changed."""
    facts = os.fstat(file)
    if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:
        raise OSError("it is a link, or no file")


def _allow(file: int, mode: int) -> None:
    """Let everybody use what this user made; the umask had taken that away."""
    facts = os.fstat(file)
    if facts.st_uid == os.geteuid() and stat.S_IMODE(facts.st_mode) != mode:
        os.fchmod(file, mode)


def _still_named(file: int, path: Path) -> bool:
    """Tell whether nobody removed the file before it was locked."""
    try:
        now = path.lstat()
    except FileNotFoundError:
        return False
    return os.path.samestat(now, os.fstat(file))


def _write(file: int, holder: Holder) -> None:
    os.ftruncate(file, 0)
    os.pwrite(file, dumps(asdict(holder)).encode(), 0)


def _read(file: int) -> Holder | None:
    """Give what the holder wrote of itself; None where it is not as ``_write`` does it.

    Any user may have written it: no number need be a time, nor a nesting have an end.
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
            hint=f"have its owner remove {path.parent}, or let everybody write there"
            " (mode 1777, its files 666)",
        ),
        reason=Reason.GPU_ERROR,
    )
