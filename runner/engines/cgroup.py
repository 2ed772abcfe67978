"""A run's control group, and what a Slurm job leaves a run on its node."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path, PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from runner.core import MIB, MOST_PIDS, Limits, Workspace
from runner.core.quantities import size_text
from runner.system import machine

CONTROLLERS = ("memory", "pids")
CLOSE_S = 5.0
PREFIX = "rai-"
ROOT = Path("/sys/fs/cgroup")


class Parent(Struct, frozen=True):
    """A folder in which a group can be made; ``version`` is that of cgroup."""

    folder: Path
    version: int


class Counts(Struct, frozen=True):
    """How many times the group hit a limit so far."""

    memory_kills: int = 0
    refused_processes: int = 0


class Group:
    """A new group; processes join it by the files ``joins``; close it at the end."""

    def __init__(self, name: str, limits: Limits, *, at_top: bool = False) -> None:
        """Make it; raise OSError if this user may not.

        The folder's name ends with this process, by which ``reap`` knows whose it is.
        ``at_top`` makes it where every process of the machine knows it by its name.
        """
        self.name = f"{PREFIX}{name}-{machine.this_process().tag}"
        self._versions: dict[str, int] = {}
        self._folders: dict[str, Path] = {}
        try:
            for controller, tries in parents(*_texts(), at_top=at_top).items():
                self._make(controller, tries, self.name)
            self._limit(limits)
        except OSError:
            self.close()
            raise

    @property
    def joins(self) -> list[str]:
        """The files that a single-threaded process writes 0 to, to join the group.

        In v1 ``tasks`` moves a thread at once, while moving a whole process takes the
        kernel some milliseconds.
        """
        files = {1: "tasks", 2: "cgroup.procs"}
        folders = [
            folder / files[self._versions[name]]
            for name, folder in self._folders.items()
        ]
        return [str(file) for file in dict.fromkeys(folders)]

    @property
    def folders(self) -> list[Path]:
        """The folders of the group, one for each hierarchy."""
        return list(dict.fromkeys(self._folders.values()))

    @property
    def counts(self) -> Counts:
        """How many times the group hit a limit; read from the kernel."""
        first = self._versions["memory"] == 1
        memory = "memory.oom_control" if first else "memory.events"
        return Counts(
            self._count("memory", memory, "oom_kill"),
            self._count("pids", "pids.events", "max"),
        )

    @property
    def processes(self) -> list[int]:
        """The numbers of the processes in it."""
        return _processes(self._folders["pids"])

    @property
    def was_full(self) -> bool:
        """Whether it refused a process, or had as many as it may have."""
        folder = self._folders["pids"]
        with contextlib.suppress(OSError, ValueError):
            most = int((folder / "pids.max").read_text())
            # Older kernels have no peak, and count in the group that was refused.
            if any(_refused(group) for group in (folder, *_subgroups(folder))):
                return True
            return int((folder / "pids.peak").read_text()) >= most
        return False

    @property
    def peak_bytes(self) -> int | None:
        """The most memory that the group used; None on an old kernel."""
        first = self._versions["memory"] == 1
        name = "memory.max_usage_in_bytes" if first else "memory.peak"
        try:
            return int((self._folders["memory"] / name).read_text())
        except OSError:
            return None

    def close(self) -> None:
        """Kill the processes left in the group, and remove it."""
        # The engine makes a group in it for all controllers of the first version.
        others = ROOT.glob(f"*/{self.name}")
        for folder in dict.fromkeys((*self.folders, *others)):
            _remove(folder)

    def _make(self, controller: str, tries: list[Parent], name: str) -> None:
        failure = OSError(f"no cgroup has the controller {controller}")
        for parent in tries:
            try:
                self._folders[controller] = _folder(parent, name)
            except OSError as error:
                failure = error
            else:
                self._versions[controller] = parent.version
                return
        raise failure

    def _limit(self, limits: Limits) -> None:
        memory, pids = self._folders["memory"], self._folders["pids"]
        (pids / "pids.max").write_text(str(min(limits.pids, MOST_PIDS)))
        # With less than 1 MiB no process could start.
        size = str(max(limits.memory_bytes, MIB))
        if self._versions["memory"] == 1:
            with contextlib.suppress(OSError):  # where it is so always
                (memory / "memory.use_hierarchy").write_text("1")
            (memory / "memory.limit_in_bytes").write_text(size)
            swap = memory / "memory.memsw.limit_in_bytes"
        else:
            (memory / "memory.max").write_text(size)
            swap, size = memory / "memory.swap.max", "0"
        if swap.exists():
            swap.write_text(size)

    def _count(self, controller: str, file: str, key: str) -> int:
        try:
            return _count(self._folders[controller] / file, key)
        except OSError:
            return 0


def parents(mounts: str, own: str, *, at_top: bool = False) -> dict[str, list[Parent]]:
    """Return the folders to try for each controller, the nearest first. Pure.

    ``mounts`` is the text of /proc/self/mountinfo, ``own`` that of /proc/self/cgroup.
    A process of a Slurm job stays within its group, which limits it. ``at_top`` returns
    the tops alone.
    """
    paths = {name: "/" if at_top else path for name, path in _paths(own).items()}
    found: dict[str, list[Parent]] = {name: [] for name in CONTROLLERS}
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        root, point = fields.split(" ")[3:5]
        for name in CONTROLLERS:
            if kind == "cgroup" and name in options.split(","):
                path = paths.get(name, "/")
                found[name] += _tries(point, root, path, 1)
            elif kind == "cgroup2" and name not in paths:
                found[name] += _tries(point, root, paths.get("", "/"), 2)
    return found


def _paths(own: str) -> dict[str, str]:
    """Return this process's group by controller; that of cgroup v2 by ""."""
    rows = [line.split(":", 2) for line in own.splitlines()]
    return {name: path for _, names, path in rows for name in names.split(",")}


def _tries(point: str, root: str, path: str, version: int) -> list[Parent]:
    # In version 2 a group that has processes cannot have groups; one around it can.
    found = groups_within(path) or (path, "/")
    below = (each.removeprefix(root) if root != "/" else each for each in found)
    folders = [Path(point, each.lstrip("/")) for each in below]
    return [Parent(folder, version) for folder in dict.fromkeys(folders)]


def _count(file: Path, key: str) -> int:
    rows: Mapping[str, str] = dict(
        line.split(" ", 1) for line in file.read_text().splitlines() if " " in line
    )
    return int(rows.get(key, "0"))


def _texts() -> tuple[str, str]:
    """Return the texts that name this process's groups, and where they are mounted."""
    mounts = Path("/proc/self/mountinfo").read_text()
    return mounts, Path("/proc/self/cgroup").read_text()


def _folder(parent: Parent, name: str) -> Path:
    """Make the group's folder.

    In v2 a process is in one group only, so one folder serves all controllers, and its
    parent must enable them.
    """
    if parent.version == 2:
        enabled = parent.folder / "cgroup.subtree_control"
        missing = set(CONTROLLERS).difference(enabled.read_text().split())
        if missing:
            enabled.write_text(" ".join(f"+{controller}" for controller in missing))
    folder = parent.folder / name
    folder.mkdir(exist_ok=True)
    return folder


@cache
def available() -> bool:
    """Whether this user may make groups with limits here; found by trying."""
    try:
        Group("trial", Limits()).close()
    except OSError:
        return False
    return True


def reap() -> None:
    """Kill and remove the groups that killed processes of this user left."""
    tries = [p.folder for each in parents(*_texts()).values() for p in each]
    for parent in dict.fromkeys((*tries, ROOT, *ROOT.glob("*/"))):
        for folder in parent.glob(f"{PREFIX}*"):
            remove_left(folder)


def remove_left(folder: Path) -> None:
    """Kill and remove a group of this user if its process has ended."""
    with contextlib.suppress(OSError):  # its own process removed it meanwhile
        ours = folder.name.startswith(PREFIX) and folder.stat().st_uid == os.getuid()
        if ours and machine.has_ended(folder.name):
            _remove(folder)


def _remove(folder: Path) -> None:
    deadline = time.monotonic() + CLOSE_S
    with contextlib.suppress(OSError):  # another controller's
        (folder / "pids.max").write_text("0")
    while folder.exists() and time.monotonic() < deadline:
        groups = [*_subgroups(folder), folder]
        for number in (each for group in groups for each in _processes(group)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        with contextlib.suppress(OSError):  # its last process has not ended yet
            for group in groups:
                group.rmdir()
            return
        time.sleep(0.005)


def _subgroups(folder: Path) -> list[Path]:
    """Return the groups in a group, the deepest first."""
    found = os.walk(folder, topdown=False, followlinks=False)
    return [Path(path) for path, _, _ in found][:-1]


def _processes(group: Path) -> list[int]:
    try:
        text = (group / "cgroup.procs").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def _refused(group: Path) -> bool:
    try:
        text = (group / "pids.events").read_text()
    except OSError:
        return False
    return any(int(line.split()[1]) for line in text.splitlines())


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


def job_counts(mounts: str, own: str) -> Counts:
    """Return how often the group of a Slurm job killed a process for its memory.

    A run without a group of its own is in the job's, which Slurm limits to what the
    run and rai may take. The texts are as for ``parents``. Zero outside of a job.
    """
    paths = _paths(own)
    if not group_of(paths.get("memory", paths.get("", "/"))):
        return Counts()
    for parent in parents(mounts, own)["memory"]:
        name = {1: "memory.oom_control", 2: "memory.events"}[parent.version]
        with contextlib.suppress(OSError):
            return Counts(_count(parent.folder / name, "oom_kill"))
    return Counts()


def job_counts_here() -> Counts:
    """Return the counts of the job that this process is in; zero in none."""
    return job_counts(*_texts())
