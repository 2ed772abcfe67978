"""The downloaded data files that are kept for later runs."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from runner.archive.datafiles import kept
from runner.core import Problem
from runner.core.errors import ConfigError
from runner.core.quantities import size_text
from runner.store import removal, retention
from runner.store.retention import KeptFile

_NAME = re.compile(r"(?:[0-9a-f]{32}|url-[0-9a-f]{32})")
"""The names of rai's own folders of data files."""


def unneeded(folder: Path, most_bytes: float, before: float) -> tuple[str, ...]:
    """Return what was last used before a time, then the oldest until the rest fits."""
    return tuple(retention.unneeded(_oldest_first(folder), most_bytes, before))


def remove(folder: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Remove data files that no run uses; return those that were removed."""
    gone = []
    for name in names:
        with kept.removing(folder / name) as may:
            if may:
                removal.discard(folder, name)
                gone.append(name)
    removal.empty(folder, wait=True)
    return tuple(gone)


def make_room(folder: Path, most_bytes: float, wanted: int) -> None:
    """Remove the oldest unused files until more bytes fit among those that are kept.

    Raises:
        ConfigError: they do not fit, since runs use the others.
    """
    if math.isinf(most_bytes):
        return
    old = _oldest_first(folder)
    left = sum(file.size_bytes for file in old) + wanted
    for file in old:
        if left <= most_bytes:
            return
        if remove(folder, [file.name]):
            left -= file.size_bytes
    if left > most_bytes:
        text = (
            f"the data files that active runs use would take more than"
            f" {size_text(most_bytes)}, the setting keep_size"
        )
        raise ConfigError(Problem(text, hint="raise it, or wait for the other runs"))


def _oldest_first(folder: Path) -> list[KeptFile]:
    """Return what is kept; no links."""
    found = []
    with suppress(OSError):
        for path in folder.iterdir():
            with suppress(OSError):
                if _NAME.fullmatch(path.name) and not path.is_symlink():
                    used_at = path.stat().st_mtime
                    size = removal.size_bytes(path)
                    found.append(KeptFile(path.name, used_at, size))
    return sorted(found, key=lambda file: file.used_at)
