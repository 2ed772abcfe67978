"""Read archives, which may be hostile."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from runner.pack.caps import BUILD, Caps


@dataclass(frozen=True, slots=True)
class Unpacked:
    """What came out; ``left_out`` says what did not, and why."""

    members: int
    total_bytes: int
    left_out: tuple[str, ...] = ()


def open_tar(archive: Path) -> BinaryIO:
    """Open the uncompressed tar stream of an archive; the caller closes it."""
    raise NotImplementedError


def unpack(archive: Path, into: Path, caps: Caps = BUILD, root: str = "") -> Unpacked:
    """Unpack into a new folder; ``root`` (e.g. "build") is taken off each name.

    Devices, pipes and links out of the folder are left out. NotAllowedError, and no
    folder, for anything else that is hostile: absolute names, ``..``, names that differ
    only by case, more than the ceilings. UsageError where ``into`` exists.
    """
    raise NotImplementedError
