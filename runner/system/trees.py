"""Walk and remove folders of any depth, whoever made them.

One folder is open at a time, nothing is recursive, no path is longer than a name, and
no link is followed. Other processes may change the folders meanwhile.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Self

from msgspec import Struct

AT_ONCE = 10_000
"""The most names of a folder that are removed before they are listed again."""

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


_WALK = stat.S_IRUSR | stat.S_IXUSR


class TooManyError(Exception):
    """There are more entries than wanted."""


class TreeEntry(Struct, frozen=True):
    """What is in a folder, whose descriptor is ``folder`` until the next entry.

    ``above`` are the names of the folders that it is in, until then too. ``within``
    says whether what it holds comes next.
    """

    folder: int
    name: str
    above: list[str]
    info: os.stat_result
    within: bool


def entries(
    root: Path, *, deepest: int | None = None, most: int | None = None
) -> Iterator[TreeEntry]:
    """Yield everything below a folder, sorted, each folder before what it holds.

    Folders that their owner may not read are opened for a moment. What is in folders
    ``deepest`` levels down is left out.

    Raises:
        TooManyError: more than ``most`` names were listed.
        OSError: the folder itself cannot be read.
    """
    listed = 0

    def names(cursor: _Cursor) -> list[str]:
        nonlocal listed
        found = []
        with os.scandir(cursor.at) as inside:
            for entry in inside:
                found.append(entry.name)
                if most is not None and listed + len(found) > most:
                    raise TooManyError
        listed += len(found)
        return sorted(found, reverse=True)

    with _Cursor(root) as cursor:
        waiting = [names(cursor)]
        while True:
            while not waiting[-1]:
                waiting.pop()
                if not waiting:
                    return
                del waiting[cursor.up() + 1 :]
            name = waiting[-1].pop()
            try:
                info = os.stat(name, dir_fd=cursor.at, follow_symlinks=False)
            except OSError:  # removed meanwhile
                continue
            folder = stat.S_ISDIR(info.st_mode)
            within = folder and (deepest is None or len(cursor.path) < deepest)
            yield TreeEntry(cursor.at, name, cursor.path, info, within)
            if within:
                with contextlib.suppress(OSError):  # removed meanwhile
                    cursor.down(name)
                    waiting.append(names(cursor))


def remove(root: Path | str, parent: int | None = None) -> None:
    """Remove a file, or a folder and everything below it, whatever its modes.

    ``parent`` is a descriptor of the folder that it is in, if it is not a whole path.

    Raises:
        OSError: something cannot be removed.
    """
    if not stat.S_ISDIR(os.stat(root, dir_fd=parent, follow_symlinks=False).st_mode):
        os.unlink(root, dir_fd=parent)
        return
    waiting: list[list[os.DirEntry[str]]] = [[]]
    with _Cursor(root, stat.S_IRWXU, parent) as cursor:
        while waiting:
            if waiting[-1]:
                entry = waiting[-1].pop()
                if not _removed(entry, cursor.at):
                    cursor.down(entry.name)
                    waiting.append([])
                continue
            with os.scandir(cursor.at) as inside:
                waiting[-1] = list(islice(inside, AT_ONCE))
            if not waiting[-1]:
                waiting.pop()
                if cursor.path:
                    name, above = cursor.path[-1], len(cursor.path) - 1
                    if cursor.up() != above:
                        why = "it changes while it is removed"
                        raise OSError(errno.EBUSY, why, name)
                    with contextlib.suppress(FileNotFoundError):
                        os.rmdir(name, dir_fd=cursor.at)
    os.rmdir(root, dir_fd=parent)


def _removed(entry: os.DirEntry[str], folder: int) -> bool:
    """Remove a file or an empty folder; return False for a folder with something."""
    with contextlib.suppress(FileNotFoundError):
        if not entry.is_dir(follow_symlinks=False):
            os.unlink(entry.name, dir_fd=folder)
            return True
        try:
            os.rmdir(entry.name, dir_fd=folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            return False
    return True


def opened(entry: TreeEntry) -> int:
    """Open a file for reading, though its mode may not allow it; return a descriptor.

    Raises:
        OSError: it cannot be opened, or is a link by now.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(entry.name, flags, dir_fd=entry.folder)
    except PermissionError:
        _permit(entry.name, entry.folder, stat.S_IRUSR)
        return os.open(entry.name, flags, dir_fd=entry.folder)


def make(root: Path | str, names: Sequence[str]) -> None:
    """Make a folder below another one, and those above it; those there are kept."""
    # Path would take as long as all the rest.
    try:
        os.mkdir("/".join([str(root), *names]))  # noqa: PTH102
        return
    except FileExistsError:
        return
    except FileNotFoundError:
        path = str(root)
    for name in names:
        path = f"{path}/{name}"
        with contextlib.suppress(FileExistsError):
            os.mkdir(path)  # noqa: PTH102


class _Cursor:
    """An open folder below another one, and the way to it."""

    def __init__(
        self, root: Path | str, needed: int = _WALK, parent: int | None = None
    ) -> None:
        """Open it; ``needed`` are the rights that its owner needs in each folder."""
        self._needed = needed
        self.path: list[str] = []
        self._ids: list[tuple[int, int]] = []
        self._modes: list[int | None] = []
        self._root, mode = _opened(str(root), parent, needed)
        self._modes.append(mode)
        self.at = os.dup(self._root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()
        os.close(self._root)

    def down(self, name: str) -> None:
        """Go into a folder; raise OSError, and stay, if that fails."""
        inner, mode = _opened(name, self.at, self._needed)
        self._ids.append(_id(self.at))
        os.close(self.at)
        self.path.append(name)
        self._modes.append(mode)
        self.at = inner

    def up(self) -> int:
        """Go to the folder above; return how deep this is below the first.

        That is less than one level less if the folder was moved meanwhile.
        """
        wanted = self._ids[-1]
        above = -1
        with contextlib.suppress(OSError):
            above = os.open("..", FOLDER, dir_fd=self.at)
        self._leave()
        self.path.pop()
        if above >= 0 and _id(above) == wanted:
            self._ids.pop()
            self.at = above
            return len(self.path)
        if above >= 0:
            os.close(above)
        self._again(self.path, [*self._ids[1:]])
        return len(self.path)

    def _again(self, path: list[str], ids: list[tuple[int, int]]) -> None:
        """Go from the first folder along a path, as far as it is still the same."""
        self.at = os.dup(self._root)
        self.path, self._ids = [], []
        # The folders above may still have the modes that they were given.
        for name, wanted in zip(path, ids, strict=True):
            try:
                inner = os.open(name, FOLDER, dir_fd=self.at)
            except OSError:
                break
            if _id(inner) != wanted:
                os.close(inner)
                break
            self._ids.append(_id(self.at))
            os.close(self.at)
            self.path.append(name)
            self.at = inner
        del self._modes[len(self.path) + 1 :]

    def _leave(self) -> None:
        """Close the open folder, with the mode that it had."""
        mode = self._modes.pop()
        if mode is not None:
            with contextlib.suppress(OSError):
                os.fchmod(self.at, mode)
        os.close(self.at)


def _opened(name: str, parent: int | None, needed: int) -> tuple[int, int | None]:
    """Open a folder; return its mode too if its owner was given more rights."""
    try:
        folder = os.open(name, FOLDER, dir_fd=parent)
    except PermissionError:
        mode = _permit(name, parent, needed)
        return os.open(name, FOLDER, dir_fd=parent), mode
    mode = stat.S_IMODE(os.fstat(folder).st_mode)
    if mode & needed == needed or (needed == _WALK and os.geteuid() == 0):
        return folder, None
    with contextlib.suppress(OSError):  # another user's
        os.fchmod(folder, mode | needed)
    return folder, mode


def _permit(name: str, parent: int | None, rights: int) -> int:
    """Add rights for a file's owner; return the mode that it had."""
    if sys.platform != "linux":
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
        os.chmod(name, mode | rights, dir_fd=parent, follow_symlinks=False)
        return stat.S_IMODE(mode)
    # A link may take its place at any time, and chmod would follow it.
    found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        mode = stat.S_IMODE(os.fstat(found).st_mode)
        os.chmod(f"/proc/self/fd/{found}", mode | rights)  # noqa: PTH101
    finally:
        os.close(found)
    return mode


def _id(folder: int) -> tuple[int, int]:
    info = os.fstat(folder)
    return info.st_dev, info.st_ino
