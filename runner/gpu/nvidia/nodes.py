"""What the kernel shows of GPUs: the driver, PCI devices and device files.

The paths are those of NVIDIA's driver README ("Device Files", "/proc Interface").
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from runner.gpu.absence import NvidiaPresence
from runner.machine import user

NVIDIA = "0x10de"
DISPLAY_CLASS = "0x03"
DXG = "/dev/dxg"
COMMON = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", DXG)
"""The device files that CUDA programs or profilers need, on Linux and on WSL."""

WSL_CUDA = "usr/lib/wsl/lib/libcuda.so.1"
CONTAINER_MARKS = (".dockerenv", "run/.containerenv")
SYSTEMS = {"Darwin": "macos", "Windows": "windows"}


def detect(root: Path) -> NvidiaPresence:
    """Return the signs of an NVIDIA GPU and its driver, without querying them."""
    system = _system(root)
    if system in SYSTEMS.values():
        return NvidiaPresence(system)
    driver = version(root)
    nodes = present(root, (*COMMON, *numbered(root)))
    cards, nouveau = ((), False) if driver else _cards(root)
    return NvidiaPresence(
        system,
        cards,
        nouveau,
        driver,
        nodes,
        _closed(root, nodes),
        (root / WSL_CUDA).exists(),
        any((root / mark).exists() for mark in CONTAINER_MARKS),
        user(),
    )


def version(root: Path) -> str:
    """Return the version of the loaded kernel module; empty if none is loaded."""
    text = read(root / "proc/driver/nvidia/version")
    found = re.search(r"^NVRM version:.*?\s(\d+(?:\.\d+)+)", text, re.MULTILINE)
    return found[1] if found else ""


def present(root: Path, nodes: Iterable[str]) -> tuple[str, ...]:
    """Return the device files that exist."""
    return tuple(node for node in nodes if (root / node[1:]).exists())


def numbered(root: Path) -> tuple[str, ...]:
    """Return the device files of single GPUs, in the order of their numbers."""
    names = (p.name for p in (root / "dev").glob("nvidia[0-9]*"))
    found = sorted(int(n[6:]) for n in names if n[6:].isdigit())
    return tuple(f"/dev/nvidia{minor}" for minor in found)


def minors(root: Path) -> dict[str, int]:
    """Return each GPU's minor number by its PCI address in lower case."""
    found: dict[str, int] = {}
    for path in (root / "proc/driver/nvidia/gpus").glob("*/information"):
        minor = re.search(r"^Device Minor:\s*(\d+)", read(path), re.MULTILINE)
        if minor:
            found[path.parent.name.lower()] = int(minor[1])
    return found


def of_slice(
    root: Path, minor: int, gpu_instance: int, compute_instance: int
) -> Iterator[str]:
    """Yield the device files of a MIG slice, without its GPU's own.

    Written from the MIG User Guide ("Device Nodes and Capabilities"), and not tried on
    a GPU in MIG mode.
    """
    instance = f"gi{gpu_instance}"
    minors = _slice_minors(root)
    for name in (f"{instance}/access", f"{instance}/ci{compute_instance}/access"):
        number = minors.get(f"gpu{minor}/{name}", _capability(root, minor, name))
        if number is not None:
            yield f"/dev/nvidia-caps/nvidia-cap{number}"


def _slice_minors(root: Path) -> dict[str, int]:
    lines = read(root / "proc/driver/nvidia-caps/mig-minors").splitlines()
    pairs = (line.rsplit(maxsplit=1) for line in lines)
    return {p[0]: int(p[1]) for p in pairs if len(p) == 2 and p[1].isdigit()}


def _capability(root: Path, minor: int, name: str) -> int | None:
    path = root / f"proc/driver/nvidia/capabilities/gpu{minor}/mig/{name}"
    found = re.search(r"^DeviceFileMinor:\s*(\d+)", read(path), re.MULTILINE)
    return int(found[1]) if found else None


def _system(root: Path) -> str:
    if name := SYSTEMS.get(platform.system()):
        return name
    release = read(root / "proc/sys/kernel/osrelease").lower()
    return "wsl" if "microsoft" in release else "linux"


def _cards(root: Path) -> tuple[tuple[str, ...], bool]:
    """Return the PCI addresses of NVIDIA's GPUs, and whether nouveau uses one."""
    found = []
    nouveau = False
    for card in sorted((root / "sys/bus/pci/devices").glob("*")):
        if read(card / "vendor").strip() != NVIDIA:
            continue
        if read(card / "class").startswith(DISPLAY_CLASS):
            found.append(card.name)
            with suppress(OSError):
                nouveau |= (card / "driver").readlink().name == "nouveau"
    return tuple(found), nouveau


def _closed(root: Path, nodes: tuple[str, ...]) -> tuple[str, ...]:
    def shut(node: str) -> bool:
        return not os.access(root / node[1:], os.R_OK | os.W_OK)

    return tuple(node for node in nodes if shut(node))


def read(path: Path) -> str:
    """Return a file's text; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
