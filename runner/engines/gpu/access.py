"""The ways by which an engine can give a run GPUs, and why there is none."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from runner.core import (
    DockerGpus,
    Gpu,
    GpuSituation,
    GpuState,
    GpuWay,
    HostGpus,
    WayTried,
)

TOOLS = "/dev/nvidia-uvm-tools"
"""The device file that only profilers and debuggers open."""

Why = tuple[str, str]
"""What is wrong and what to do; both empty if nothing is wrong."""


class NvidiaPresence(Struct, frozen=True):
    """What the files of a machine show of NVIDIA's GPUs and driver.

    ``system`` is linux, wsl, macos or windows. ``cards`` are the PCI addresses of the
    NVIDIA GPUs; ``nouveau`` is whether the driver nouveau uses one. ``driver`` is the
    version of the loaded kernel module. ``nodes`` are the device files, and ``closed``
    those that this user may not open. ``wsl_cuda`` is whether WSL has Windows' CUDA
    driver; ``contained`` whether this is a container.
    """

    system: str = "linux"
    cards: tuple[str, ...] = ()
    nouveau: bool = False
    driver: str = ""
    nodes: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    wsl_cuda: bool = False
    contained: bool = False
    user: str = ""


def why(presence: NvidiaPresence) -> Why:
    """Return why the driver need not be queried; empty if it should be."""
    if presence.system == "macos":
        return "macOS has no NVIDIA driver", "run on a machine with an NVIDIA GPU"
    if presence.system == "windows":
        return (
            "rai supports GPUs on Linux and WSL only",
            "run rai inside WSL 2, with NVIDIA's driver for Windows installed",
        )
    if presence.system == "wsl":
        return _under_wsl(presence)
    if not presence.driver:
        return _no_driver(presence)
    if "/dev/nvidiactl" not in presence.nodes:
        return _no_device_files(presence)
    if shut := _shut(presence):
        return (
            f"{presence.user or 'this user'} may not open {', '.join(shut)}",
            "add the user to the group that owns these files (`ls -l /dev/nvidia*`),"
            " or make them writable for everyone (mode 666)",
        )
    return "", ""


def _shut(presence: NvidiaPresence) -> tuple[str, ...]:
    """Return the closed files that every run needs.

    A closed file of a single GPU only makes that GPU unusable, unless all are closed.
    """
    own = {node for node in presence.nodes if re.fullmatch(r"/dev/nvidia\d+", node)}
    spared = {TOOLS} if own <= set(presence.closed) else {TOOLS, *own}
    return tuple(node for node in presence.closed if node not in spared)


def _no_driver(presence: NvidiaPresence) -> Why:
    if presence.nouveau:
        return (
            "the NVIDIA GPU uses the driver nouveau, which does not support CUDA",
            "install NVIDIA's driver and restart the machine",
        )
    if presence.cards:
        return (
            "there is an NVIDIA GPU, but no driver is loaded",
            "install NVIDIA's driver, or load it with `modprobe nvidia`",
        )
    return "this machine has no NVIDIA GPU", "run on a machine with an NVIDIA GPU"


def _under_wsl(presence: NvidiaPresence) -> Why:
    if "/dev/dxg" in presence.nodes and presence.wsl_cuda:
        return "", ""
    lacking = "/usr/lib/wsl/lib has no libcuda.so.1"
    if "/dev/dxg" not in presence.nodes:
        lacking = "/dev/dxg is missing"
    return (
        f"WSL has no access to an NVIDIA GPU ({lacking})",
        "install NVIDIA's driver for Windows, then `wsl --update`",
    )


def _no_device_files(presence: NvidiaPresence) -> Why:
    what = "the NVIDIA driver is loaded, but its device files are missing"
    if presence.contained:
        return what, "start this container with its GPUs (`docker run --gpus ...`)"
    return what, "run `nvidia-modprobe -u -c 0`, or `nvidia-smi` once, as root"


MISMATCH = 18
NO_PERMISSION = 4
NOT_LOADED = 9


NAME_SLICE = (
    "name a slice of it by its UUID in `--gpus` or CUDA_VISIBLE_DEVICES, or disable MIG"
    " (`nvidia-smi -mig 0`)"
)


def none_usable(lost: Sequence[str], sliced: Sequence[str]) -> Why:
    """Return why none of the GPUs that are there can be used."""
    if sliced:
        return f"in MIG mode: {', '.join(sliced)}", NAME_SLICE
    if lost:
        return (
            f"no GPU answers: {'; '.join(lost)}",
            "reset them (`nvidia-smi --gpu-reset`), or restart the machine",
        )
    return (
        "the NVIDIA driver is loaded, but lists no GPU",
        "see `nvidia-smi -L` and `dmesg`",
    )


def silent(code: int, text: str, library: bool, smi: str) -> Why:
    """Return why the driver lists no GPU, from NVML's and nvidia-smi's errors.

    ``code`` is nvml.h's nvmlReturn_t, 0 if the library was not loaded; ``text`` is
    NVML's message, ``smi`` nvidia-smi's. ``library`` is whether NVML's file was found.
    """
    if code == MISMATCH or "version mismatch" in smi:
        return (
            "the driver's libraries are of another version than its kernel module",
            "restart the machine, or reload the module (`rmmod nvidia`, `modprobe"
            " nvidia`): the driver was updated while it was in use",
        )
    if code == NO_PERMISSION:
        return (
            "this user has no permission to query the NVIDIA driver",
            "add the user to the group that owns /dev/nvidia*",
        )
    if code == NOT_LOADED:
        return "the NVIDIA driver is not loaded", "load it with `modprobe nvidia`"
    if not library:
        return (
            "the driver's library libnvidia-ml.so.1 is not found",
            "install the driver's libraries, or add their folder to LD_LIBRARY_PATH",
        )
    return (
        f"the NVIDIA driver does not answer: {'; '.join(filter(None, [text, smi]))}",
        "see `nvidia-smi` and `dmesg`",
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
