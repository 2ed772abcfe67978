"""A Slurm of two nodes on a machine with a GPU: n1 has all GPUs, n2 has none."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.kit.cluster import AT_ONCE, Cluster, cluster

ROOT = Path(__file__).resolve().parents[2]
SLICE = Path("/sys/fs/cgroup/system.slice")
"""Where Slurm 22.05 makes its control groups of version 2, with systemd or without."""

CONTROLLERS = "+cpuset +cpu +memory +pids"
PARTITIONS = (
    "PartitionName=main Nodes=ALL Default=YES",
    "PartitionName=gpu Nodes=n1",
    "PartitionName=plain Nodes=n2",
)
WITHOUT_SYSTEMD = "CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\n"
CONSTRAINED = (
    f"{WITHOUT_SYSTEMD}ConstrainDevices=yes\n"
    "ConstrainCores=yes\nConstrainRAMSpace=yes\n"
)
BY_CGROUP = {
    "ProctrackType": "proctrack/cgroup",
    "TaskPlugin": "task/cgroup",
}
MEMORY_MIB = 24_000


def device_files() -> list[str]:
    """Return the device files of this machine's GPUs, in their order."""
    found = [f for f in Path("/dev").glob("nvidia*") if f.name[6:].isdecimal()]
    return [str(f) for f in sorted(found, key=lambda file: int(file.name[6:]))]


def uuids() -> list[str]:
    """Return the UUIDs of this machine's GPUs, as the driver lists them."""
    listed = subprocess.run(
        ["nvidia-smi", "-L"], capture_output=True, check=True, text=True, timeout=60
    )
    return re.findall(r"UUID: (GPU-[^)]+)", listed.stdout)


def why_unconstrained() -> str | None:
    """Return why Slurm cannot constrain the devices of jobs here."""
    if not Path("/sys/fs/cgroup/cgroup.controllers").exists():
        return "no control groups of version 2 at /sys/fs/cgroup"
    if os.geteuid() or not os.access("/sys/fs/cgroup", os.W_OK):
        return "it takes root, and a /sys/fs/cgroup that can be written to"
    if Path("/run/systemd/system").exists():
        return "systemd's control groups are left alone"
    return None


@contextmanager
def gpu_cluster(
    *, constrained: bool, settings: Mapping[str, str] = AT_ONCE
) -> Iterator[Cluster]:
    """Start it; ``constrained`` lets a job open no GPU but its own.

    A node has all cores of the machine: its work is never held back by the other's.
    """
    own = why_unconstrained() is None
    if own:  # as systemd does
        SLICE.mkdir(exist_ok=True)
        (SLICE / "cgroup.subtree_control").write_text(CONTROLLERS)
    try:
        with cluster(
            settings={**settings, **(BY_CGROUP if constrained else {})},
            partitions=PARTITIONS,
            devices={"n1": device_files(), "n2": ()},
            size=(os.cpu_count() or 1, MEMORY_MIB),
            cgroup=CONSTRAINED if constrained else WITHOUT_SYSTEMD * own,
        ) as made:
            yield made
    finally:
        if own:
            _remove(SLICE)


def _remove(group: Path) -> None:
    for below in [each for each in group.iterdir() if each.is_dir()]:
        _remove(below)
    with suppress(OSError):  # a process of it still ends
        group.rmdir()
