"""What an engine says about itself."""

from __future__ import annotations

import platform
from typing import Any

from runner.core import DockerGpus, EngineFacts
from runner.engines.docker.client import Client, failing
from runner.engines.docker.endpoint import Endpoint

Info = dict[str, Any]

LOCAL = ("unix", "npipe")
"""The schemes of sockets that lie on this machine."""


def ask(client: Client) -> Info:
    """Have the engine describe itself: one call, of which all else is read."""
    with failing("describe itself"):
        info: Info = client.info()
    return info


def facts(info: Info, api_version: str, endpoint: Endpoint) -> EngineFacts:
    """Say which engine it is, how it is reached, and what it cannot enforce."""
    how = f"{endpoint}, API {api_version}, cgroup v{info.get('CgroupVersion') or '1'}"
    return EngineFacts(
        "docker", info.get("ServerVersion") or "", how, unenforced=_unenforced(info)
    )


def gpus(info: Info, api_version: str, endpoint: Endpoint) -> DockerGpus:
    """Pick what decides about GPUs.

    Docker tells the CDI devices that it found since 28.2. BuildahVersion is an addition
    of Podman's to the answer.
    """
    devices = info.get("DiscoveredDevices") or ()
    named = (each.get("ID") for each in devices if each.get("Source") == "cdi")
    return DockerGpus(
        api_version,
        version=info.get("ServerVersion") or "",
        here=_here(info, endpoint),
        operating_system=info.get("OperatingSystem") or "",
        runtimes=tuple(info.get("Runtimes") or ()),
        cdi_devices=tuple(name for name in named if name),
        cdi_folders=tuple(info.get("CDISpecDirs") or ()),
        podman="BuildahVersion" in info,
    )


def _here(info: Info, endpoint: Endpoint) -> bool:
    """Tell whether the engine sees this machine's files.

    A socket of this machine alone does not say so: another's may be forwarded to it, or
    this process may be in a container that was given the engine's. Nor does the name
    alone, which a copy of this machine has as well.
    """
    machine = (platform.node(), platform.release())
    told = (info.get("Name"), info.get("KernelVersion"))
    return endpoint.scheme in LOCAL and told == machine


def _unenforced(info: Info) -> tuple[str, ...]:
    limits = {"MemoryLimit": "memory", "SwapLimit": "swap", "PidsLimit": "pids"}
    missing = [name for key, name in limits.items() if not info.get(key)]
    if "name=seccomp" not in ",".join(info.get("SecurityOptions") or ()):
        missing.append("system calls")
    return tuple(missing)
