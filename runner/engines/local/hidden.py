"""Settings of this machine that are not for everyone, and not for a run either.

An ordinary user's groups stay with the commands: the kernel lets nobody else drop them.
What these groups may read is hidden instead.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from runner.engines.folders import Folders
from runner.engines.local.layout import Bind

ETC = Path("/etc")
NOTHING = "/dev/null"
"""What is shown in place of a file: it cannot even be opened, as no device there."""


def hidden(folders: Folders, folder: Path = ETC) -> tuple[Bind, ...]:
    """Return what hides the files that this user may use, and others may not."""
    empty = str(folders.empty)
    return tuple(
        Bind(empty if path.is_dir() else NOTHING, str(path)) for path in _own(folder)
    )


def _own(folder: Path) -> Iterator[Path]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                mode = entry.stat(follow_symlinks=False).st_mode
                if _is_own(entry.path, mode):
                    yield Path(entry.path)
                elif stat.S_ISDIR(mode):
                    yield from _own(Path(entry.path))


def _is_own(path: str, mode: int) -> bool:
    """Whether this user may use a file, folder or socket, and others may not."""
    needed = os.R_OK
    if stat.S_ISDIR(mode):
        needed = os.X_OK
    elif stat.S_ISSOCK(mode):
        needed = os.W_OK
    elif not stat.S_ISREG(mode):
        return False
    return not mode & needed and os.access(path, needed)
