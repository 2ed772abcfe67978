"""The kernel's side of GPUs: its driver, PCI cards, device files, MIG capabilities.

The places are those of NVIDIA's driver README ("Device Files", "/proc Interface") and
of the MIG User Guide ("Device Nodes and Capabilities").
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from runner.gpu.absence import Traces
from runner.machine import user

NVIDIA = "0x10de"
DISPLAY_CLASS = "0x03"
DXG = "/dev/dxg"
COMMON = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", DXG)
"""What every CUDA program needs, or its profilers do, under Linux and under WSL."""

WSL_CUDA = "usr/lib/wsl/lib/libcuda.so.1"
CONTAINER_MARKS = (".dockerenv", "run/.containerenv")
SYSTEMS = {"Darwin": "macos", "Windows": "windows"}


def traces(root: Path) -> Traces:
    """Look for an NVIDIA GPU and its driver, asking neither."""
    system = _system(root)
    if system in SYSTEMS.values():
        return Traces(system)
    driver = version(root)
    nodes = present(root, (*COMMON, *numbered(root)))
    cards, nouveau = ((), False) if driver else _cards(root)
    return Traces(
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
    """Give the loaded kernel module's version; empty where none is loaded."""
    text = _text(root / "proc/driver/nvidia/version")
    found = re.search(r"^NVRM version:.*?\s(\d+(?:\.\d+)+)", text, re.MULTILINE)
    return found[1] if found else ""


def present(root: Path, nodes: Iterable[str]) -> tuple[str, ...]:
    """Leave those device files that are there."""
    return tuple(node for node in nodes if (root / node[1:]).exists())


def numbered(root: Path) -> tuple[str, ...]:
    """Give the device files of the single GPUs, by number."""
    names = (p.name for p in (root / "dev").glob("nvidia[0-9]*"))
    found = sorted(int(n[6:]) for n in names if n[6:].isdigit())
    return tuple(f"/dev/nvidia{minor}" for minor in found)


def minors(root: Path) -> dict[str, int]:
    """Give the minor number of each GPU by its PCI address, in lower case."""
    found: dict[str, int] = {}
    for path in (root / "proc/driver/nvidia/gpus").glob("*/information"):
        minor = re.search(r"^Device Minor:\s*(\d+)", _text(path), re.MULTILINE)
        if minor:
            found[path.parent.name.lower()] = int(minor[1])
    return found


def capabilities(
    root: Path, minor: int, gpu_instance: int, compute_instance: int
) -> Iterator[str]:
    """Give the device files that open a MIG slice, beside its GPU's own."""
    within = f"gi{gpu_instance}"
    listed = _mig_minors(root)
    for way in (f"{within}/access", f"{within}/ci{compute_instance}/access"):
        number = listed.get(f"gpu{minor}/{way}", _capability(root, minor, way))
        if number is not None:
            yield f"/dev/nvidia-caps/nvidia-cap{number}"


def _mig_minors(root: Path) -> dict[str, int]:
    lines = _text(root / "proc/driver/nvidia-caps/mig-minors").splitlines()
    pairs = (line.rsplit(maxsplit=1) for line in lines)
    return {p[0]: int(p[1]) for p in pairs if len(p) == 2 and p[1].isdigit()}


def _capability(root: Path, minor: int, way: str) -> int | None:
    path = root / f"proc/driver/nvidia/capabilities/gpu{minor}/mig/{way}"
    found = re.search(r"^DeviceFileMinor:\s*(\d+)", _text(path), re.MULTILINE)
    return int(found[1]) if found else None


def _system(root: Path) -> str:
    if name := SYSTEMS.get(platform.system()):
        return name
    release = _text(root / "proc/sys/kernel/osrelease").lower()
    return "wsl" if "microsoft" in release else "linux"


def _cards(root: Path) -> tuple[tuple[str, ...], bool]:
    """Give the PCI addresses of NVIDIA's GPUs, and whether nouveau has one."""
    found = []
    nouveau = False
    for card in sorted((root / "sys/bus/pci/devices").glob("*")):
        if _text(card / "vendor").strip() != NVIDIA:
            continue
        if _text(card / "class").startswith(DISPLAY_CLASS):
            found.append(card.name)
            with suppress(OSError):
                nouveau |= (card / "driver").readlink().name == "nouveau"
    return tuple(found), nouveau


def _closed(root: Path, nodes: tuple[str, ...]) -> tuple[str, ...]:
    def shut(node: str) -> bool:
        return not os.access(root / node[1:], os.R_OK | os.W_OK)

    return tuple(node for node in nodes if shut(node))


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
