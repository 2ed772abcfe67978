"""Count files that were removed and still take space, since a process uses them.

What only a message between two sockets holds is not seen.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable
from contextlib import suppress

from runner.engines.usage import cost

MOST_FILES = 200_000
"""The most open files and mappings that are looked at; a look takes a second or so."""

REMOVED = "(deleted)"


def removed(processes: Iterable[int], devices: Collection[int]) -> int:
    """Return the bytes of the removed files of some devices that processes use."""
    seen: set[tuple[int, int]] = set()
    total = looked = 0
    for process in processes:
        with suppress(OSError):  # it ended
            for info in _open(process):
                looked += 1
                if looked > MOST_FILES:
                    return total
                identity = (info.st_dev, info.st_ino)
                if (
                    info.st_nlink == 0
                    and stat.S_ISREG(info.st_mode)
                    and info.st_dev in devices
                    and identity not in seen
                ):
                    seen.add(identity)
                    total += cost(info, set())
        with suppress(OSError):
            for identity, size in _mapped(process):
                looked += 1
                if looked > MOST_FILES:
                    return total
                if identity[0] in devices and identity not in seen:
                    seen.add(identity)
                    total += size
    return total


def _open(process: int) -> Iterable[os.stat_result]:
    with os.scandir(f"/proc/{process}/fd") as files:
        for file in files:
            with suppress(OSError):  # closed meanwhile
                yield os.stat(file.path)  # noqa: PTH116 - there are many


def _mapped(process: int) -> Iterable[tuple[tuple[int, int], int]]:
    """Yield device, number and least size of the removed files that are mapped."""
    sizes: dict[tuple[int, int], int] = {}
    with open(f"/proc/{process}/maps", errors="replace") as lines:  # noqa: PTH123
        for line in lines:
            if not line.endswith(f"{REMOVED}\n"):
                continue
            span, _, offset, device, inode = line.split()[:5]
            start, end = (int(word, 16) for word in span.split("-"))
            major, minor = (int(word, 16) for word in device.split(":"))
            identity = (os.makedev(major, minor), int(inode))
            size = end - start + int(offset, 16)
            sizes[identity] = max(sizes.get(identity, 0), size)
    yield from sizes.items()
