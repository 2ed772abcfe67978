"""Measure what a job's folders take of a disk, removed files in use too."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from runner.core import Reason
from runner.system import trees

EVERY_S = 2.0
SHARE = 20
"""Measuring takes at most 1/SHARE of the time,"""

SOON_S = 0.1
SOON_SHARE = 3
"""or 1/SOON_SHARE while the free space shrinks so fast that a limit may be met."""

BLOCK_BYTES = 512
ENTRY_BYTES = 4096
"""What a file, folder or link costs at least, however small it is."""

MOST_FILES = 200_000
"""The most open files that are looked at; a look takes a second or so."""

LINES = 4
"""So many mappings take as long to look at as an open file."""

REMOVED = "(deleted)"
_IN_MESSAGES = re.compile(r"^scm_fds:\s*[1-9]", re.MULTILINE)

Identity = tuple[int, int]


class FreeSpace:
    """The free space of some folders' file systems, which costs little to look at."""

    def __init__(self, folders: Collection[Path], limit_bytes: int) -> None:
        self._folders, self._limit = folders, limit_bytes
        self._at_first = self._free()
        self._then, self._room = self._at_first, limit_bytes

    def lost(self) -> int:
        """Return by how much it has shrunk since this was made."""
        return self._at_first - self._free()

    def measured(self, total_bytes: int) -> None:
        """Note that so much of the limit is taken now."""
        self._then, self._room = self._free(), self._limit - total_bytes

    def may_be_over(self) -> bool:
        """Whether it has shrunk by what the last measurement left of the limit."""
        return self._then - self._free() > self._room

    def _free(self) -> int:
        infos = {(i := os.statvfs(f)).f_fsid: i for f in self._folders}.values()
        return sum(info.f_bavail * info.f_frsize for info in infos)


class DiskMeter:
    """A meter of what some folders take together, and of removed files in use.

    Files that were removed count while one of the ``processes`` uses them. If they may
    be hidden from it (``removed``), all space that the file system has lost since the
    meter was made counts.
    """

    def __init__(
        self,
        folders: Collection[Path],
        limit_bytes: int,
        processes: Callable[[], Iterable[int]],
        devices: Collection[int] = (),
    ) -> None:
        self._folders, self._limit = folders, limit_bytes
        self._processes = processes
        self._devices = devices or {folder.stat().st_dev for folder in folders}
        self.space = FreeSpace(folders, limit_bytes)

    def taken(self) -> int:
        """Measure and return the bytes taken; counting may end above the limit."""
        total = used(self._folders, self._limit)
        if total <= self._limit:
            gone = removed(self._processes(), self._devices)
            total += gone.bytes
            if gone.hidden:
                total = max(total, self.space.lost())
        self.space.measured(total)
        return total


def pause_s(every_s: float, took_s: float) -> float:
    """Return how long to wait after a measurement that took so long."""
    return max(every_s, SHARE * took_s)


class Pace:
    """When to measure next: not too often, as it takes time."""

    def __init__(self, first_s: float, every_s: float) -> None:
        self._every_s = every_s
        self._took_s = 0.0
        self._last = time.monotonic()
        self._next = self._last + first_s

    def due(self, space: FreeSpace | None) -> bool:
        """Whether it is time to measure, or ``space`` says that it should be sooner."""
        now = time.monotonic()
        if now >= self._next:
            return True
        soon = self._last + max(SOON_S, SOON_SHARE * self._took_s)
        return space is not None and now >= soon and space.may_be_over()

    def measured(self, began: float) -> None:
        """Note that a measurement began at a time of the monotonic clock and ended."""
        self._last = time.monotonic()
        self._took_s = self._last - began
        self._next = self._last + pause_s(self._every_s, self._took_s)


class FolderDiskWatch:
    """A check that the files of some folders stay within a limit together.

    A run may exceed the limit until the next measurement.
    """

    def __init__(
        self,
        *folders: Path,
        limit_bytes: int,
        processes: Callable[[], Iterable[int]] = tuple,
    ) -> None:
        self._limit = limit_bytes
        self._meter = DiskMeter(folders, limit_bytes, processes)
        self._pace = Pace(EVERY_S, EVERY_S)

    def __call__(self) -> Reason | None:
        """Measure, unless the last measurement is recent; return DISK_LIMIT or None."""
        return self.look() if self._pace.due(self._meter.space) else None

    def look(self) -> Reason | None:
        """Measure now; return DISK_LIMIT or None."""
        began = time.monotonic()
        taken = self._meter.taken()
        self._pace.measured(began)
        return Reason.DISK_LIMIT if taken > self._limit else None


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


class RemovedFiles(Struct, frozen=True):
    """What removed files take; ``hidden`` says that more may be there, unseen."""

    bytes: int = 0
    hidden: bool = False


def removed(processes: Iterable[int], devices: Collection[int]) -> RemovedFiles:
    """Look for the removed files of some devices that processes use.

    A process may hold a file by an open descriptor, by a mapping, or in a message
    between two sockets that nobody has received. The kernel tells that there is such a
    message, but not which files it holds. Each thread may have descriptors of its own.
    """
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
