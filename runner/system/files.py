"""Write files atomically, and read files of folders that are not trusted.

No link is followed out of such a folder, and reads are bounded. Every component of a
name is opened by itself, without following links, so that a change of the folder
between the check and the read has no effect.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import TypeVar

from msgspec import json

from runner.core import Problem, Reason
from runner.core.errors import RaiError

_Value = TypeVar("_Value")

MOST_LINKS = 40
"""The kernel's own limit."""

FULL = (errno.ENOSPC, errno.EDQUOT)
DISK_FAULTS = (*FULL, errno.EFBIG, errno.EIO, errno.EROFS)

_FOLLOWS_NOTHING = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK opening a named pipe would wait for a writer.
_COMPONENT = _FOLLOWS_NOTHING | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
_APPENDED = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC
_NO_PROGRAM = 0o666
_PRIVATE = 0o600
_IS_LINK = (errno.ELOOP, errno.EMLINK)


def descriptor(folder: Path, name: str) -> int:
    """Open a regular file below a folder for reading; return its descriptor.

    Links within the folder are followed; the folder's own path may contain links too.
    Raise OSError for a link out of it, or if it is not a regular file.
    """
    ahead = name.split("/")[::-1]
    opened = [os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
    links = 0
    try:
        while ahead:
            part = ahead.pop()
            if part in ("", "."):
                continue
            if part == "..":
                os.close(opened.pop())
                if not opened:
                    raise _leads_out(name)
                continue
            try:
                opened.append(os.open(part, _COMPONENT, dir_fd=opened[-1]))
            except OSError as error:
                links += 1
                if error.errno not in _IS_LINK or links > MOST_LINKS:
                    raise
                target = os.readlink(part, dir_fd=opened[-1])
                if target.startswith("/"):
                    raise _leads_out(name) from None
                ahead += target.split("/")[::-1]
        if not stat.S_ISREG(os.fstat(opened[-1]).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", name)
        return opened.pop()
    finally:
        for handle in opened:
            os.close(handle)


def open_below(folder: Path, name: str) -> BufferedReader:
    """Open a regular file below a folder for reading, as ``descriptor`` does."""
    return os.fdopen(descriptor(folder, name), "rb")


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file, which no link may lead to from another folder.

    Raise OSError with the whole path otherwise; no pipe or device is waited for.
    """
    try:
        return open_below(path.parent, path.name)
    except OSError as error:
        error.filename = str(path)
        raise


def lines(file: BufferedReader, most_bytes: int) -> Iterator[bytes]:
    """Yield the whole lines of a file, up to one that is longer than ``most_bytes``."""
    while (line := file.readline(most_bytes)).endswith(b"\n"):
        yield line


def opened(path: Path, within: Path | None) -> BufferedReader:
    """Open a file for reading; ``within`` is the folder that no link may lead out of.

    Without one every link is followed, since the user chose the path.
    """
    if within is None:
        return path.open("rb")
    return open_below(within, str(path.relative_to(within)))


def read_below(folder: Path, name: str, most_bytes: int) -> bytes:
    """Return a file below a folder; raise OSError if it is over ``most_bytes``."""
    handle = descriptor(folder, name)
    try:
        return content(handle, most_bytes, name)
    finally:
        os.close(handle)


def read_json(path: Path, most_bytes: int, kind: type[_Value]) -> _Value | None:
    """Return what a JSON file holds, as ``read_below`` reads it; None if that fails."""
    try:
        return json.decode(read_below(path.parent, path.name, most_bytes), type=kind)
    except (OSError, ValueError, RecursionError):
        return None


def read(path: Path, most_bytes: int) -> bytes:
    """Return a regular file of the user's own, following links.

    Raise OSError if it is over ``most_bytes`` or no regular file; no pipe or device is
    waited for.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return content(handle, most_bytes, str(path))
    finally:
        os.close(handle)


def appended(path: Path) -> BufferedWriter:
    """Open a file of the user's own to append to it; make it if it is absent.

    No pipe is waited for: one that nobody reads, or that is full, is an OSError.
    """
    return os.fdopen(os.open(path, _APPENDED, _NO_PROGRAM), "ab")


def content(handle: int, most_bytes: int, name: str) -> bytes:
    """Return what is in an open file; raise OSError as ``read`` does."""
    facts = os.fstat(handle)
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", name)
    data = b""
    if not (large := facts.st_size > most_bytes):
        with os.fdopen(handle, "rb", closefd=False) as file:
            data = file.read(most_bytes + 1)
    if large or len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {most_bytes:,} bytes", name)
    return data


def _leads_out(name: str) -> OSError:
    return OSError(errno.EXDEV, "a link leads out of the folder", name)


def problem(error: OSError) -> Problem:
    """Return what is wrong with a file, and for a full disk what to do."""
    text = error.strerror or str(error)
    if error.filename is None:
        return Problem(text)
    path = Path(os.fsdecode(error.filename))
    hint = f"free some space on {mount(path)}" if error.errno in FULL else ""
    return Problem(f"{path}: {text}", hint=hint)


def reason(error: OSError) -> Reason:
    """Return disk_full, or internal for any other error."""
    return Reason.DISK_FULL if error.errno in FULL else Reason.INTERNAL


def disk_fault(error: Exception, folder: Path) -> RaiError | None:
    """Return the error of a full or broken disk; None for any other error.

    An error that names no file is that of the folder.
    """
    if not isinstance(error, OSError) or error.errno not in DISK_FAULTS:
        return None
    error.filename = error.filename or str(folder)
    return RaiError(problem(error), reason=reason(error))


@contextmanager
def disk_faults(folder: Path) -> Iterator[None]:
    """Raise what ``disk_fault`` returns of an OSError, if it is of the disk."""
    try:
        yield
    except OSError as error:
        if (fault := disk_fault(error, folder)) is None:
            raise
        raise fault from error


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the path in an OSError of a file that is open, which names none."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def mount(path: Path) -> Path:
    """Return where the file system of a path is mounted."""
    path = path.absolute()
    while not path.is_mount() and path != path.parent:
        path = path.parent
    return path


def is_text(name: str) -> bool:
    """Whether a name, as os.fsdecode gives it, is UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def ignores_case(folder: Path) -> bool:
    """Whether two names that differ only by case are one, in an empty folder."""
    probe = folder / "case"
    probe.touch()
    try:
        return (folder / "CASE").exists()
    finally:
        probe.unlink()


def touch(path: Path) -> None:
    """Make an empty file, unless there is something; no link is followed."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))


def stamp(path: Path) -> None:
    """Set a file's time to the present one of its file system; make it if need be."""
    handle = os.open(
        path, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    try:
        os.utime(handle)
    finally:
        os.close(handle)


def time_there(folder: Path) -> float:
    """Return the present time of a folder's file system, in seconds since 1970.

    A network file system has its server's, which all machines that use it see alike.
    """
    probe = folder / f".time.{secrets.token_hex(4)}"
    stamp(probe)
    try:
        return probe.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)


def write_once(path: Path, data: bytes, part: Path | None = None) -> bool:
    """Write a file as ``write`` does, unless there is one; return if it was written.

    ``part`` is its temporary name, where other processes do not choose one.
    """
    new = part or path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    with naming(path):
        try:
            with os.fdopen(os.open(new, _NEW, _NO_PROGRAM), "wb") as file:
                file.write(data)
            return name_once(new, path)
        finally:
            new.unlink(missing_ok=True)


def name_once(new: Path, name: Path) -> bool:
    """Rename a file, unless another has the name; return if it was renamed.

    Of several processes that do so at once, on whatever machines, one succeeds.
    """
    with suppress(OSError):
        os.link(new, name)
    # A network file system may report a failure of what it did.
    if new.stat().st_nlink == 2:
        return True
    if name.exists():
        return False
    # A file system without hard links: the rename alone could replace another's file.
    try:
        os.close(os.open(name, os.O_CREAT | os.O_EXCL, _PRIVATE))
    except FileExistsError:
        return False
    new.rename(name)
    return True


def aside(path: Path) -> Path:
    """Return the temporary name of a file that will be renamed to ``path``."""
    return path.with_name(f".{path.name}.part")


def write(path: Path, data: bytes, *, private: bool = False) -> None:
    """Write a file under a temporary name, then rename it, so no reader sees half.

    A link that somebody put there is not followed. A private file is for the user only.
    """
    part = aside(path)
    mode = _PRIVATE if private else _NO_PROGRAM
    with naming(path):
        try:
            with os.fdopen(os.open(part, _NEW, mode), "wb") as file:
                if private:  # a file that was there keeps its mode
                    os.fchmod(file.fileno(), mode)
                file.write(data)
            part.rename(path)
        except BaseException:  # a second Ctrl-C too leaves nothing
            part.unlink(missing_ok=True)
            raise
