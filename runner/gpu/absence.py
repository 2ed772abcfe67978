"""Why a machine shows no GPU, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

TOOLS = "/dev/nvidia-uvm-tools"
"""What only profilers and debuggers open."""

Why = tuple[str, str]
"""What is wrong, and what to do; both empty where nothing is."""


class Traces(Struct, frozen=True):
    """What a machine shows of NVIDIA before any GPU is asked for.

    ``system`` is linux, wsl, macos or windows. ``cards`` are the PCI addresses of its
    NVIDIA GPUs, ``nouveau`` whether the kernel's own driver has them. ``driver`` is the
    loaded kernel module's version. ``nodes`` are the device files there are, and
    ``closed`` those of them that this user may not open. ``wsl_cuda`` is whether
    Windows lends WSL a CUDA driver; ``contained`` whether this is a container.
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


def why(traces: Traces) -> Why:
    """Say why nothing need be asked of the driver; empty where it is to be asked."""
    if traces.system == "macos":
        return "macOS has no NVIDIA driver", "run on a machine with an NVIDIA GPU"
    if traces.system == "windows":
        return (
            "rai looks for GPUs under Linux and under WSL only",
            "run rai inside WSL 2, with NVIDIA's driver for Windows installed",
        )
    if traces.system == "wsl":
        return _under_wsl(traces)
    if not traces.driver:
        return _no_driver(traces)
    if "/dev/nvidiactl" not in traces.nodes:
        return _no_nodes(traces)
    if shut := _shut(traces):
        return (
            f"{traces.user or 'this user'} may not open {', '.join(shut)}",
            "add the user to the group that owns these files (`ls -l /dev/nvidia*`),"
            " or have them opened to all (mode 666)",
        )
    return "", ""


def _shut(traces: Traces) -> tuple[str, ...]:
    """Name the closed files that no run can do without; of the GPUs' own one will do.

    A GPU of which the file is closed is found out of order, and the others serve.
    """
    own = {node for node in traces.nodes if re.fullmatch(r"/dev/nvidia\d+", node)}
    spared = {TOOLS} if own <= set(traces.closed) else {TOOLS, *own}
    return tuple(node for node in traces.closed if node not in spared)


def _no_driver(traces: Traces) -> Why:
    if traces.nouveau:
        return (
            "there is an NVIDIA GPU, and nouveau drives it, with which CUDA cannot run",
            "install NVIDIA's driver and restart the machine",
        )
    if traces.cards:
        return (
            "there is an NVIDIA GPU and no driver is loaded",
            "install NVIDIA's driver, or load it with `modprobe nvidia`",
        )
    return "this machine has no NVIDIA GPU", "run on a machine with an NVIDIA GPU"


def _under_wsl(traces: Traces) -> Why:
    if "/dev/dxg" in traces.nodes and traces.wsl_cuda:
        return "", ""
    lacking = "/usr/lib/wsl/lib has no libcuda.so.1"
    if "/dev/dxg" not in traces.nodes:
        lacking = "/dev/dxg is missing"
    return (
        f"Windows lends WSL no NVIDIA GPU ({lacking})",
        "install NVIDIA's driver for Windows, then `wsl --update`",
    )


def _no_nodes(traces: Traces) -> Why:
    what = "the NVIDIA driver is loaded, and its device files are missing"
    if traces.contained:
        return what, "start this container with its GPUs (`docker run --gpus ...`)"
    return what, "run `nvidia-modprobe -u -c 0`, or `nvidia-smi` once, as root"


MISMATCH = 18
NO_PERMISSION = 4
NOT_LOADED = 9


def none_usable(lost: Sequence[str], unsliced: Sequence[str]) -> Why:
    """Say what became of the GPUs that are there and cannot be given to a run."""
    if unsliced:
        return (
            f"{', '.join(unsliced)} is in MIG mode and has no slice",
            "make slices (`nvidia-smi mig -cgi ... -C`), or leave the mode (`nvidia-smi"
            " -mig 0`)",
        )
    if lost:
        return (
            f"no GPU answers: {'; '.join(lost)}",
            "reset them (`nvidia-smi --gpu-reset`), or restart the machine",
        )
    return (
        "the NVIDIA driver is loaded and shows no GPU",
        "see `nvidia-smi -L` and `dmesg` for what became of it",
    )


def silent(code: int, text: str, library: bool, smi: str) -> Why:
    """Say why the driver told of no GPU: NVML's code and text, and nvidia-smi's words.

    ``code`` is nvml.h's nvmlReturn_t, 0 where the library was not loaded; ``library``
    says whether its file was found.
    """
    if code == MISMATCH or "version mismatch" in smi:
        return (
            "the driver's libraries are of another version than its kernel module",
            "restart the machine, or reload the module (`rmmod nvidia`, `modprobe"
            " nvidia`): the driver was updated while it was in use",
        )
    if code == NO_PERMISSION:
        return (
            "this user may not ask the NVIDIA driver",
            "add the user to the group that owns /dev/nvidia*",
        )
    if code == NOT_LOADED:
        return "the NVIDIA driver is not loaded", "load it with `modprobe nvidia`"
    if not library:
        return (
            "the driver's library libnvidia-ml.so.1 is not found",
            "install the driver's libraries, or name their folder in LD_LIBRARY_PATH",
        )
    return (
        f"the NVIDIA driver does not answer: {'; '.join(filter(None, [text, smi]))}",
        "see `nvidia-smi` and `dmesg`",
    )
