"""The settings of a run's container that confine it, as values for the API."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from docker.types import Mount, Ulimit

from runner.core import GIB, MOST_PIDS, DataMount, Limits, Profile, Workspace
from runner.engines.cgroup import NO_JOB, JobShare
from runner.engines.docker.gpu import NO_GPU, GpuOptions
from runner.engines.gpu.watch import visible_devices
from runner.engines.launch import environment

STRICT_USER = 10001
FILE_OWNER_CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID"]
TMP_BYTES = GIB
TMP_OPTIONS = "rw,exec,nosuid,nodev,mode=1777"

DATA = "rai.data"
DATA_BYTES = "rai.data.bytes"
"""The labels of a volume of data files, and how large these are."""

KEEPER_USER = 10002
"""The user of process 1 in a strict run: none of its commands can signal or trace it.

The engine gives a command of a compatible run its capabilities only where process 1 is
root too.
"""

KEEPER = """\
trap "" TERM; trap exit ALRM; exec 3<&0
read now _ </proc/uptime; end=$((${now%.*} + $0))
while read now _ </proc/uptime; left=$((end - ${now%.*})); [ $left -gt 0 ]; do
    (while read -r _; do :; done; while kill -ALRM 1; do sleep 1; done) <&3 & reader=$!
    sleep $left & wait $!
    [ $? = 127 ] && exit 127
    kill -9 $reader
done
"""
"""Process 1: end at the deadline, or when stdin does; until then reap orphans.

A signal from a command cannot kill process 1, and what it waits for is started again
after `kill -9 -1`. Docker's own init would end together with its child.
"""

KEEPER_PROCESSES = 3

NO_HEALTHCHECK = {"test": ["NONE"]}


def user(profile: Profile) -> int:
    """Return the user id, which is the group id too, of the commands."""
    return STRICT_USER if profile is Profile.STRICT else 0


def keeper(profile: Profile, time_s: float) -> dict[str, Any]:
    """Return the settings of process 1, which keeps the container for ``time_s``.

    It ends earlier if its stdin does. The engine closes that when the connection that
    holds it is gone, so the container ends with the process that runs its commands.
    The deadline is for an engine that cannot notice.
    """
    who = KEEPER_USER if profile is Profile.STRICT else 0
    return {
        "entrypoint": ["/bin/sh", "-c", KEEPER, str(math.ceil(time_s))],
        "user": f"{who}:{who}",
        "stdin_open": True,
    }


def data_volume(mount: DataMount) -> str:
    """Return the name of the volume that holds exactly these files."""
    return f"rai-data-{mount.key}"


def data_mount(mount: DataMount, directory: str, *, read_only: bool) -> Mount:
    """Return the volume of data files, which the engine makes with its labels."""
    size = sum(file.size_bytes for file in mount.files)
    labels = {DATA: mount.key, DATA_BYTES: str(size)}
    return Mount(
        directory, data_volume(mount), read_only=read_only, no_copy=True, labels=labels
    )


def mounts(
    name: str, labels: Mapping[str, str], *, source_read_only: bool
) -> list[Mount]:
    """Return the volumes of a run, which the engine makes with these labels.

    ``no_copy`` keeps the image's files in these folders out of them.
    """
    return [
        Mount(
            folder,
            f"{name}-{folder[1:]}",
            read_only=read_only,
            no_copy=True,
            labels=dict(labels),
        )
        for folder, read_only in (("/src", source_read_only), ("/build", False))
    ]


def host_options(
    work: Workspace,
    name: str,
    labels: Mapping[str, str],
    gpu: GpuOptions = NO_GPU,
    share: JobShare = NO_JOB,
    *,
    closes: bool = False,
) -> dict[str, Any]:
    """Return the host settings of the container that runs the commands.

    Adding GPUs, or the limits of a Slurm job, removes nothing of the confinement. With
    ``closes`` it starts without a network, to be connected when private addresses are
    closed to it.
    """
    strict = work.profile is Profile.STRICT
    data = [data_mount(mount, mount.directory, read_only=True) for mount in work.data]
    most_tmp = min(TMP_BYTES, work.limits.memory_bytes // 2)
    return {
        "mounts": [*mounts(name, labels, source_read_only=strict), *data, *gpu.mounts],
        "network_mode": "bridge" if work.limits.network and not closes else "none",
        "cap_drop": ["ALL"],
        "cap_add": [] if strict else FILE_OWNER_CAPABILITIES,
        "security_opt": ["no-new-privileges"],
        "read_only": strict,
        # /tmp counts as memory, and filling all of that would end the container.
        "tmpfs": {"/tmp": f"{TMP_OPTIONS},size={most_tmp}"} if strict else {},
        "log_config": {"Type": "none", "Config": {}},
        **_limit_options(work.limits),
        **({"cpuset_cpus": ",".join(map(str, share.cores))} if share.cores else {}),
        **({"cgroup_parent": share.group} if share.group else {}),
        **dict(gpu.options),
    }


def variables(
    work: Workspace, image_variables: list[str], gpu: GpuOptions = NO_GPU
) -> dict[str, str]:
    """Return the environment of the container, the image's variables included.

    What users add is for the commands alone: an inspection of the container would show
    it, and `NVIDIA_VISIBLE_DEVICES` there gives GPUs.
    """
    strict = work.profile is Profile.STRICT
    base = dict(line.partition("=")[::2] for line in image_variables)
    home = "/tmp" if strict else "/root"
    named = environment(
        user="rai" if strict else "root",
        home=home,
        image=work.image or "",
        gpus=visible_devices(work),
        base=base,
    )
    cache = {"XDG_CACHE_HOME": "/tmp/.cache"}
    return {**named, **cache, **gpu.variables}


def _limit_options(limits: Limits) -> dict[str, Any]:
    return {
        "mem_limit": limits.memory_bytes,
        "memswap_limit": limits.memory_bytes,
        "pids_limit": min(limits.pids, MOST_PIDS),
        "shm_size": limits.shm_bytes,
        "ulimits": [
            Ulimit(name=name, soft=most, hard=most)
            for name, most in (
                ("nofile", limits.open_files),
                ("fsize", limits.file_bytes),
                ("core", 0),
            )
        ],
    }
