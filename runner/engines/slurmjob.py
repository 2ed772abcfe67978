"""What a Slurm job leaves a run on its node: cores, memory, and a control group. Pure.

The paths are those of Slurm's cgroup plugins: /slurm/uid_0/job_5/step_batch for version
1 (/slurm_NODE where several slurmd share a machine), and
/system.slice/slurmstepd.scope/job_5/step_batch/user/task_0 for version 2
(NODE_slurmstepd.scope).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from runner.core import MIB, Workspace
from runner.core.quantities import size_text

_GROUP = re.compile(
    r"(?!.*/\.\.(?:/|$))/(?:slurm(?:_[^/]+)?/uid_[0-9]+|(?:[^/]+/)*(?:[^/]+_)?slurmstepd\.scope)"
    r"/job_[0-9]+(?=/|$)"
)
_NUMBER = re.compile("[0-9]{1,12}")
_DEVICE = re.compile(r'failed to write "[abc] [0-9]+:[0-9]')


class JobShare(Struct, frozen=True):
    """What a container may have in a Slurm job; empty and None where it is not limited.

    ``cores`` are the kernel's numbers. ``group`` is the path of the control group below
    which the container belongs.
    """

    job: str = ""
    cores: tuple[int, ...] = ()
    memory_bytes: int | None = None
    group: str = ""

    def fitted(self, work: Workspace) -> tuple[Workspace, str]:
        """Return the work within the job's memory, and what was lowered for that."""
        limit, most = work.limits.memory_bytes, self.memory_bytes
        if most is None or limit <= most:
            return work, ""
        limits = replace(work.limits, memory_bytes=most)
        text = (
            f"the memory limit is {size_text(most)}, all that Slurm job {self.job}"
            f" has here, instead of {size_text(limit)}"
        )
        return replace(work, limits=limits), text


NO_JOB = JobShare()


def group_of(path: str) -> str:
    """Return the control group of the job that a process's group is in, or ""."""
    found = _GROUP.match(path)
    return found[0] if found else ""


def groups_within(path: str) -> tuple[str, ...]:
    """Return the group at ``path`` and those around it, up to that of the job.

    Empty if it is in no job.
    """
    job = group_of(path)
    around = map(str, (PurePosixPath(path), *PurePosixPath(path).parents))
    return tuple(each for each in around if job and each.startswith(job))


def share(
    environ: Mapping[str, str], cores: Collection[int], of_cores: int
) -> JobShare:
    """Return what the job of a process with this environment has on its node.

    ``cores`` are those that the process may use, of so many that the engine has.
    """
    job = environ.get("SLURM_JOB_ID", "")
    if not job or not environ.get("SLURMD_NODENAME"):
        return NO_JOB
    fewer = tuple(sorted(cores)) if len(cores) < of_cores else ()
    return JobShare(job, fewer, _memory(environ))


def common_group(own: str) -> str:
    """Return the job's group in every hierarchy that has one; "" if they differ.

    ``own`` is the text of /proc/self/cgroup.
    """
    found = {group_of(line.split(":", 2)[2]) for line in own.splitlines()} - {""}
    return found.pop() if len(found) == 1 else ""


def strangers(own: str) -> tuple[str, ...]:
    """Return the hierarchies beside those of version 1 that Slurm makes the job's in.

    They are the names of folders of /sys/fs/cgroup. Version 2 is mounted at "unified"
    there beside version 1.
    """
    rows = [line.split(":", 2) for line in own.splitlines()]
    if not any(names for _, names, _ in rows):
        return ()
    return tuple(
        names.removeprefix("name=") or "unified"
        for _, names, path in rows
        if not group_of(path)
    )


def may_leave_group(why: str) -> bool:
    """Whether a container that did not start in the job's group may start beside it.

    ``why`` is the engine's message. Not if it names a device that the job may not use.
    In version 1 with ConstrainDevices the kernel refuses each container there, since it
    may make device files of any number.
    """
    return "cgroup" in why and not _DEVICE.search(why)


def _memory(environ: Mapping[str, str]) -> int | None:
    """Return the job's memory on this node in bytes; None if Slurm does not say it."""

    def number(name: str) -> int:
        text = environ.get(name, "")
        return int(text) if _NUMBER.fullmatch(text) else 0

    of_cores = number("SLURM_MEM_PER_CPU") * number("SLURM_CPUS_ON_NODE")
    of_gpus = number("SLURM_MEM_PER_GPU") * number("SLURM_GPUS_ON_NODE")
    known = number("SLURM_MEM_PER_NODE") or of_cores or of_gpus
    return known * MIB or None
