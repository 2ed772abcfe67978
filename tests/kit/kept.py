"""What tests compile, kept from one session to the next and made by one process."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def kept(
    folder: Path, parts: Iterable[bytes | Path], make: Callable[[Path], None]
) -> Path:
    """Return the folder that was made of these parts before, or make it and keep it.

    A path among the parts stands for the content of its file.
    """
    digest = hashlib.sha256()
    for part in parts:
        content = part.read_bytes() if isinstance(part, Path) else part
        digest.update(len(content).to_bytes(8, "little") + content)
    place = folder / digest.hexdigest()
    with alone(place):
        if not (place / "whole").exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            make(place)
            (place / "whole").touch()
    return place


@contextmanager
def alone(place: Path) -> Iterator[None]:
    """Let one process at a time through; others wait."""
    with place.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
