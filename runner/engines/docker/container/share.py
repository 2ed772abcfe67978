"""What a Slurm job leaves a container of this machine's engine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from runner.engines.docker.container.disk import measured_by_root
from runner.engines.docker.endpoint import Endpoint
from runner.engines.docker.facts import Info, is_here
from runner.engines.slurmjob import NO_JOB, JobShare, common_group, share, strangers

GROUPS = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")

STALE_S = 600.0
"""A job has groups in its own but for a moment at its start and its end."""


def of_this_process(info: Info, endpoint: Endpoint) -> JobShare:
    """Return what this process's Slurm job leaves a container of an engine.

    Podman and an engine of an ordinary user are left as they are: they may start
    containers in the job by themselves, and may lack the rights for limits.
    """
    rootless = "name=rootless" in (info.get("SecurityOptions") or ())
    if rootless or "BuildahVersion" in info or not is_here(info, endpoint):
        return NO_JOB
    found = share(os.environ, os.sched_getaffinity(0), info.get("NCPU") or 0)
    return replace(found, group=_group(info)) if found.job else found


def tidy(group: str) -> None:
    """Remove the empty groups that an engine made for a job where Slurm has none.

    In version 1 it makes the job's path in each hierarchy, and leaves it there. Remove
    those of other jobs too, which ended with their worker killed: Slurm cannot remove a
    job's group while a container is in it.
    """
    if not group:
        return
    with suppress(OSError):
        for hierarchy in strangers(OWN.read_text()):
            folder = GROUPS / hierarchy / group.lstrip("/")
            while folder != GROUPS / hierarchy:
                _remove(folder)
                folder = folder.parent
    for folder in _of_other_jobs(PurePosixPath(group)):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > STALE_S:
                _remove(folder)


def _of_other_jobs(group: PurePosixPath) -> Iterator[Path]:
    by_user = group.parent.name.startswith("uid_")
    around = group.parent.parent if by_user else group.parent
    for top in (GROUPS, *GROUPS.glob("*/")):
        folder = top / str(around).lstrip("/")
        for found in folder.glob("uid_*/job_*" if by_user else "job_*"):
            if found.name != group.name:
                yield found


def _remove(folder: Path) -> None:
    with suppress(OSError):  # it has groups or processes, or was never made
        folder.rmdir()


def _group(info: Info) -> str:
    """Return the group for a container; "" where it cannot be the job's.

    An engine that has systemd make its groups takes none but a slice of systemd. In
    version 1 only root can tidy up.
    """
    if info.get("CgroupDriver") != "cgroupfs":
        return ""
    if str(info.get("CgroupVersion") or "1") == "1" and not measured_by_root():
        return ""
    with suppress(OSError):
        return common_group(OWN.read_text())
    return ""
