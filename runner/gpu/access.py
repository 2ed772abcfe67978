"""The ways by which an engine can give a run GPUs, and why a way is not available.

They are tried in the order of GpuWay. The versions are those of Docker's release notes:
CDI came with Docker 25 (API 1.44) as an option, and is on by default since 28.3.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from runner.core import (
    DockerGpus,
    Gpu,
    GpuSituation,
    GpuState,
    GpuWay,
    HostGpus,
    WayTried,
)

CDI_API = (1, 44)
CDI_REPORTED = (1, 50)
"""Since this API an engine reports the CDI devices that it found (Docker 28.2)."""

KIND = "nvidia.com/gpu"
SPECIFY = "`nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`"
TOOLKIT = (
    "install nvidia-container-toolkit, `nvidia-ctk runtime configure`, and restart"
    " Docker"
)
LIBCUDA = "libcuda.so.1"
UVM = "/dev/nvidia-uvm"


def docker(
    engine: DockerGpus, host: HostGpus, states: Sequence[GpuState] = ()
) -> GpuSituation:
    """Return what a container engine can give; ``host`` is the machine that runs rai.

    ``states`` are the present states of the machine's GPUs.
    """
    ways = (
        WayTried(GpuWay.REQUEST, _no_request(engine, host)),
        WayTried(GpuWay.CDI, _no_cdi(engine, host)),
        WayTried(GpuWay.NODES, _no_nodes(engine, host)),
    )
    open_ways = any(not tried.problem for tried in ways)
    if engine.here:
        return _here(ways, host, states)
    if open_ways:
        return GpuSituation(ways, None)
    return GpuSituation(
        ways,
        problem="the engine, which is on another machine, offers no NVIDIA GPU",
        hint=f"there: {TOOLKIT}",
    )


def local(host: HostGpus, states: Sequence[GpuState] = ()) -> GpuSituation:
    """Return what a run without a container can have on this machine."""
    ways = (WayTried(GpuWay.NODES, lacking(host)),)
    return _here(ways, host, states)


def cdi_names(
    gpus: tuple[Gpu, ...], names: tuple[str, ...], host: HostGpus
) -> tuple[str, ...] | None:
    """Return the CDI device of each GPU, by its UUID if there is one, else its number.

    None if ``names`` lacks one of them. A MIG slice has one by its UUID only, and so
    has each GPU where this process has some of the machine's: the driver may count
    those from 0, and the engine counts all.
    """
    found = [_cdi_name(gpu, frozenset(names), host.allotted) for gpu in gpus]
    return None if None in found else tuple(name for name in found if name)


def _cdi_name(gpu: Gpu, names: frozenset[str], allotted: str) -> str | None:
    by_uuid = gpu.parent or allotted
    wanted = [gpu.uuid] if by_uuid else [gpu.uuid, str(gpu.index)]
    return next((n for n in (f"{KIND}={w}" for w in wanted) if n in names), None)


def _here(
    ways: tuple[WayTried, ...], host: HostGpus, states: Sequence[GpuState]
) -> GpuSituation:
    problem, hint = host.problem, host.hint
    if not problem and all(tried.problem for tried in ways):
        problem = "there is a GPU, but no way to give it to a run: " + "; ".join(
            f"{tried.way.words}: {tried.problem}" for tried in ways
        )
    return GpuSituation(
        ways,
        host.gpus,
        host.driver,
        problem,
        hint,
        tuple(states),
        allotted=host.allotted,
        withheld=host.withheld,
    )


def _no_request(engine: DockerGpus, host: HostGpus) -> str:
    if "nvidia" in engine.runtimes or (engine.here and host.toolkit):
        return ""
    return f"neither its hook nor a runtime `nvidia` is installed: {TOOLKIT}"


def _no_cdi(engine: DockerGpus, host: HostGpus) -> str:
    if why := _cdi_off(engine):
        return why
    reported = tuple(n for n in engine.cdi_devices if n.startswith(f"{KIND}="))
    names = reported or (host.cdi if engine.here else ())
    silent = _version(engine.api_version) < CDI_REPORTED
    if not names and not engine.here and silent:
        # CDI is on there, but the engine does not list its devices: a container will.
        return ""
    if not names:
        return f"no specification names an NVIDIA GPU: {SPECIFY}"
    named = any(cdi_names((gpu,), names, host) for gpu in host.gpus)
    if engine.here and host.gpus and not named:
        return f"the specification names other GPUs than are here: {SPECIFY} again"
    return ""


def _cdi_off(engine: DockerGpus) -> str:
    if _version(engine.api_version) < CDI_API:
        return "Docker supports CDI since version 25"
    if not engine.cdi_folders:
        return 'CDI is off: set "features": {"cdi": true} in /etc/docker/daemon.json'
    return ""


def _no_nodes(engine: DockerGpus, host: HostGpus) -> str:
    if not engine.here:
        return "the engine is on another machine, whose driver's files are unknown"
    if host.system == "wsl":
        return "on WSL only nvidia-container-toolkit provides the driver's files"
    return lacking(host)


def lacking(host: HostGpus) -> str:
    """Return which device file or library is missing; empty if none is."""
    if not host.gpus:
        return "there is no GPU to give"
    if host.system != "wsl" and not any(gpu.nodes for gpu in host.gpus):
        return "no GPU's device file is known: check that `nvidia-smi` works"
    if host.system != "wsl" and UVM not in host.nodes:
        return f"{UVM} is missing: run `nvidia-modprobe -u -c 0`"
    if LIBCUDA not in dict(host.libraries):
        return f"the driver's library {LIBCUDA} is not found: install the driver's" + (
            " libraries for CUDA"
        )
    return ""


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text)[:2])
