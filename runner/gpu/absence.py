"""Explain why a machine has no GPU that works, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

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
        return _no_nodes(presence)
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


def _no_nodes(presence: NvidiaPresence) -> Why:
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
