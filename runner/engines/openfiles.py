"""Count what folders take of a disk, and removed files that a process still uses.

A process may hold a file by an open descriptor, by a mapping, or in a message between
two sockets that nobody has received. The kernel tells that there is such a message, but
not which files it holds. Each thread may have descriptors of its own.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from runner import trees

BLOCK_BYTES = 512
ENTRY_BYTES = 4096
"""What a file, folder or link costs at least, however small it is."""


def used(folders: Iterable[Path], most_bytes: int) -> int:
    """Return the bytes that some folders take together, each file once.

    Counting ends above ``most_bytes``.
    """
    seen: set[tuple[int, int]] = set()
    total = 0
    for folder in folders:
        most_names = (most_bytes - total) // ENTRY_BYTES + 1
        try:
            for entry in trees.entries(folder, most=most_names):
                total += cost(entry.info, seen)
                if total > most_bytes:
                    return total
        except trees.TooManyError:
            return most_bytes + 1
    return total


def cost(info: os.stat_result, seen: set[tuple[int, int]]) -> int:
    """Return the bytes that a file takes, unless it is one of ``seen``."""
    if info.st_nlink != 1:
        identity = (info.st_dev, info.st_ino)
        if identity in seen and not stat.S_ISDIR(info.st_mode):
            return 0
        seen.add(identity)
    return max(info.st_size, info.st_blocks * BLOCK_BYTES, ENTRY_BYTES)


MOST_FILES = 200_000
"""The most open files that are looked at; a look takes a second or so."""

LINES = 4
"""So many mappings take as long to look at as an open file."""

REMOVED = "(deleted)"
_IN_MESSAGES = re.compile(r"^scm_fds:\s*[1-9]", re.MULTILINE)

Identity = tuple[int, int]


class RemovedFiles(Struct, frozen=True):
    """What removed files take; ``hidden`` says that more may be there, unseen."""

    bytes: int = 0
    hidden: bool = False


def removed(processes: Iterable[int], devices: Collection[int]) -> RemovedFiles:
    """Look for the removed files of some devices that processes use."""
    search = _DescriptorSearch(devices)
    for process in processes:
        threads: list[str] = []
        with suppress(OSError):  # it ended
            threads = os.listdir(f"/proc/{process}/task")  # noqa: PTH208 - names
        for thread in threads:
            search.thread(Path(f"/proc/{process}/task/{thread}"))
        # The first thread may have ended, and then tells nothing.
        search.mappings(Path(f"/proc/{process}/task/{each}/maps") for each in threads)
        if search.looked > MOST_FILES:
            return RemovedFiles(search.bytes, hidden=True)
    return RemovedFiles(search.bytes, search.hidden)


class _DescriptorSearch:
    """A search that counts each file once."""

    def __init__(self, devices: Collection[int]) -> None:
        self._devices = devices
        self._seen: set[Identity] = set()
        self.bytes = self.looked = 0
        self.hidden = False

    def thread(self, folder: Path) -> None:
        """Count what the descriptors of a thread hold."""
        if self.looked > MOST_FILES:
            return
        with suppress(OSError):
            for number, info in _open(folder):
                self.looked += 1
                if self.looked > MOST_FILES:
                    return
                if stat.S_ISSOCK(info.st_mode):
                    self.hidden = self.hidden or _holds_files(folder, number)
                elif info.st_nlink == 0 and stat.S_ISREG(info.st_mode):
                    self._add((info.st_dev, info.st_ino), cost(info, set()))

    def mappings(self, files: Iterable[Path]) -> None:
        """Count what the first of these lists that is not empty says."""
        for file in files:
            with suppress(OSError), file.open(errors="replace") as lines:
                number = self._mappings(lines)
                if number:
                    return

    def _mappings(self, lines: Iterable[str]) -> int:
        """Count the files in the lines of a list; return how many lines it has."""
        sizes: dict[Identity, int] = {}
        number = 0
        for number, line in enumerate(lines, 1):
            if line.endswith(f"{REMOVED}\n"):
                identity, size = _mapped(line)
                sizes[identity] = max(sizes.get(identity, 0), size)
            if number % LINES == 0:
                self.looked += 1
                if self.looked > MOST_FILES:
                    break
        for identity, size in sizes.items():
            self._add(identity, size)
        return number

    def _add(self, identity: Identity, size: int) -> None:
        if identity[0] in self._devices and identity not in self._seen:
            self._seen.add(identity)
            self.bytes += size


def _open(thread: Path) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(thread / "fd") as files:
        for file in files:
            with suppress(OSError):  # closed meanwhile
                yield file.name, os.stat(file.path)  # noqa: PTH116 - there are many


def _holds_files(thread: Path, number: str) -> bool:
    """Whether messages wait at a socket that files were sent with; Linux 5.8 tells."""
    with suppress(OSError):
        return bool(_IN_MESSAGES.search((thread / "fdinfo" / number).read_text()))
    return False


def _mapped(line: str) -> tuple[Identity, int]:
    """Return the device and number of a mapped file, and its least size."""
    span, _, offset, device, inode = line.split()[:5]
    start, end = (int(word, 16) for word in span.split("-"))
    major, minor = (int(word, 16) for word in device.split(":"))
    size = end - start + int(offset, 16)
    return (os.makedev(major, minor), int(inode)), size
