"""What an engine reports about itself."""

from __future__ import annotations

import platform
from typing import Any

from runner.core import DockerGpus, EngineFacts
from runner.engines import network
from runner.engines.docker.client import Client, failing
from runner.engines.docker.endpoint import Endpoint
from runner.engines.docker.usage import measured_by_root
from runner.spec import images

Info = dict[str, Any]

UNSEEN = "disk of removed and empty files"
"""What the disk limit does not count where the engine alone measures."""

_LIMITS = {"MemoryLimit": "memory", "SwapLimit": "swap", "PidsLimit": "pids"}
"""What the engine says of the kernel's limits, and their names."""

PRIVATE = "private addresses"
"""What containers with a network reach where nobody can close it to them."""

LOCAL = ("unix", "npipe")
"""The schemes of sockets on this machine."""


def ask(client: Client) -> Info:
    """Return the engine's description of itself."""
    with failing("describe itself"):
        info: Info = client.info()
    return info


def facts(info: Info, api_version: str, endpoint: Endpoint) -> EngineFacts:
    """Return the engine's version, its address and what it cannot enforce."""
    how = f"{endpoint}, API {api_version}, cgroup v{info.get('CgroupVersion') or '1'}"
    return EngineFacts(
        "docker",
        info.get("ServerVersion") or "",
        how,
        unenforced=_unenforced(info, endpoint),
        unenforced_with_network=() if can_close(info, endpoint) else (PRIVATE,),
        architecture=images.normal(info.get("Architecture") or ""),
        unenforced_in_builds=unenforced_in_builds(info, endpoint),
    )


def can_group_builds(info: Info, endpoint: Endpoint) -> bool:
    """Whether this user can make a control group that the engine builds images in.

    An engine that has systemd make its groups takes none but a slice of systemd.
    """
    driver = info.get("CgroupDriver")
    return measured_by_root() and is_here(info, endpoint) and driver == "cgroupfs"


def unenforced_in_builds(info: Info, endpoint: Endpoint) -> tuple[str, ...]:
    """Return the limits that the engine's own builder does not enforce here."""
    missing = [name for key, name in _LIMITS.items() if not info.get(key)]
    if not can_group_builds(info, endpoint) and "pids" not in missing:
        missing.append("pids")
    return tuple(missing)


def gpus(info: Info, api_version: str, endpoint: Endpoint) -> DockerGpus:
    """Return the facts that decide about GPUs.

    Docker reports the CDI devices that it found since 28.2.
    """
    devices = info.get("DiscoveredDevices") or ()
    named = (each.get("ID") for each in devices if each.get("Source") == "cdi")
    return DockerGpus(
        api_version,
        here=is_here(info, endpoint),
        runtimes=tuple(info.get("Runtimes") or ()),
        cdi_devices=tuple(name for name in named if name),
        cdi_folders=tuple(info.get("CDISpecDirs") or ()),
    )


def is_here(info: Info, endpoint: Endpoint) -> bool:
    """Whether the engine sees this machine's files.

    A local socket is not enough: it may be forwarded from another machine, or be
    mounted into the container of this process. Nor is the name, which a copy of this
    machine has too.
    """
    machine = (platform.node(), platform.release())
    reported = (info.get("Name"), info.get("KernelVersion"))
    return endpoint.scheme in LOCAL and reported == machine


def can_close(info: Info, endpoint: Endpoint) -> bool:
    """Whether this user can close private addresses to the engine's containers.

    Podman connects no container to a network that was started without one. The kernel
    may lack nf_tables.
    """
    if "BuildahVersion" in info or not measured_by_root():
        return False
    return is_here(info, endpoint) and not network.refusal()


def _unenforced(info: Info, endpoint: Endpoint) -> tuple[str, ...]:
    missing = [name for key, name in _LIMITS.items() if not info.get(key)]
    if "name=seccomp" not in ",".join(info.get("SecurityOptions") or ()):
        missing.append("system calls")
    if not (measured_by_root() and is_here(info, endpoint)):
        missing.append(UNSEEN)
    return tuple(missing)
