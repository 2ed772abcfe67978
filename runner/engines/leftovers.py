"""Remove what killed runs of this user left on this machine."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

from runner.engines import cgroup


def remove() -> None:
    """Remove folders, control groups and processes whose owner is gone.

    It is cheap where there are none, so commands that only read call it too.
    """
    with suppress(OSError):  # no temporary folder can be written to
        if any(Path(tempfile.gettempdir()).glob("rai-*-*")):
            from runner.engines import folders

            folders.reap()
    with suppress(OSError):
        cgroup.reap()
