"""How a run is confined: plain values that the engine's API takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docker.types import Mount, Ulimit

from runner.core import GIB, MOST_PIDS, DataMount, Limits, Profile, Workspace
from runner.engines.docker.gpu.options import NO_GPU, GpuOptions
from runner.engines.environment import environment
from runner.gpu.watch import visible_devices

STRICT_USER = 10001
FILE_OWNER_CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID"]
TMP_BYTES = GIB

SLEEPER = ["/bin/sh", "-c", 'trap "" TERM; while sleep 3600 || :; do :; done']
"""Keeps the container up, and buries the orphans of the commands.

As process 1 it cannot be killed from inside, where an init that has lost its child
would end: `kill -9 -1` in a command costs only its ``sleep``.
"""

SLEEPER_PROCESSES = 2

NO_HEALTHCHECK = {"test": ["NONE"]}


def user(profile: Profile) -> int:
    """Give the user id, and group id, that commands run as."""
    return STRICT_USER if profile is Profile.STRICT else 0


def data_volume(mount: DataMount) -> str:
    """Name the volume that holds these very files."""
    return f"rai-data-{mount.key}"


def mounts(
    name: str, labels: Mapping[str, str], *, source_read_only: bool
) -> list[Mount]:
    """Give the volumes of a run, which come into being with their labels.

    ``no_copy`` keeps what the image has at these places out of them.
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
    work: Workspace, name: str, labels: Mapping[str, str], gpu: GpuOptions = NO_GPU
) -> dict[str, Any]:
    """Give the host's half of the settings of the container that runs the commands.

    GPUs come in beside the confinement; nothing of it is given up for them.
    """
    strict = work.profile is Profile.STRICT
    data = [
        Mount(mount.directory, data_volume(mount), read_only=True, no_copy=True)
        for mount in work.data
    ]
    return {
        "mounts": [*mounts(name, labels, source_read_only=strict), *data, *gpu.mounts],
        "network_mode": "bridge" if work.limits.network else "none",
        "cap_drop": ["ALL"],
        "cap_add": [] if strict else FILE_OWNER_CAPABILITIES,
        "security_opt": ["no-new-privileges"],
        "read_only": strict,
        "tmpfs": {"/tmp": _tmp_options(work.limits)} if strict else {},
        "log_config": {"Type": "none", "Config": {}},
        **_limit_options(work.limits),
        **dict(gpu.options),
    }


def variables(
    work: Workspace, image_variables: list[str], gpu: GpuOptions = NO_GPU
) -> dict[str, str]:
    """Give the environment of the commands, the image's own included."""
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
    return {**named, **cache, **work.environment, **gpu.variables}


def _tmp_options(limits: Limits) -> str:
    # What lies in /tmp counts as memory; all of it there would end the container.
    size = min(TMP_BYTES, limits.memory_bytes // 2)
    return f"rw,exec,nosuid,nodev,mode=1777,size={size}"


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
