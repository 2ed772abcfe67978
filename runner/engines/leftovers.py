"""Remove what killed runs of this user left on this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from runner.engines import slurmjob

GROUPS = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")


def remove() -> None:
    """Remove folders, control groups and processes whose owner is gone.

    It is cheap where there are none, so commands that only read call it too.
    """
    with suppress(OSError):  # no temporary folder can be written to
        if any(Path(tempfile.gettempdir()).glob("rai-*-*")):
            from runner.engines import folders

            folders.reap()
    with suppress(OSError):
        if any(any(folder.glob("rai-*")) for folder in _groups()):
            from runner.engines.local import cgroup

            cgroup.reap()


def _groups() -> Iterator[Path]:
    """Yield where groups may have been made: at the top, and in this process's own.

    In a Slurm job also in those around it.
    """
    paths = {line.split(":", 2)[2] for line in OWN.read_text().splitlines()}
    around = {each for path in paths for each in slurmjob.groups_within(path)}
    tops = [GROUPS, *GROUPS.glob("*/")]
    for path in {"/", *paths, *around}:
        for top in tops:
            yield top / path.lstrip("/")
