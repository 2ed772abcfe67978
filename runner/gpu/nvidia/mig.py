"""MIG: the slices of a GPU, as NVML and the kernel show them.

Written from the MIG User Guide ("Device Nodes and Capabilities") and tested with texts
and a library in that form, but not tried on a GPU in MIG mode.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runner.gpu.nvidia import nodes, state


def handles(nv: Any, device: Any) -> list[Any] | None:  # noqa: ANN401 - pynvml's
    """Return NVML's handles of a GPU's slices; None if it is not in MIG mode."""
    mode = state.query(nv, nv.nvmlDeviceGetMigMode, device)
    if mode is None or mode[0] != nv.NVML_DEVICE_MIG_ENABLE:
        return None
    get = nv.nvmlDeviceGetMigDeviceHandleByIndex
    most = nv.nvmlDeviceGetMaxMigDeviceCount(device)
    found = (state.query(nv, get, device, number) for number in range(most))
    return [handle for handle in found if handle is not None]


def device_files(
    root: Path, minor: int, gpu_instance: int, compute_instance: int
) -> Iterator[str]:
    """Yield the device files of a slice, without its GPU's own."""
    instance = f"gi{gpu_instance}"
    minors = _minors(root)
    for name in (f"{instance}/access", f"{instance}/ci{compute_instance}/access"):
        number = minors.get(f"gpu{minor}/{name}", _capability(root, minor, name))
        if number is not None:
            yield f"/dev/nvidia-caps/nvidia-cap{number}"


def _minors(root: Path) -> dict[str, int]:
    lines = nodes.read(root / "proc/driver/nvidia-caps/mig-minors").splitlines()
    pairs = (line.rsplit(maxsplit=1) for line in lines)
    return {p[0]: int(p[1]) for p in pairs if len(p) == 2 and p[1].isdigit()}


def _capability(root: Path, minor: int, name: str) -> int | None:
    path = root / f"proc/driver/nvidia/capabilities/gpu{minor}/mig/{name}"
    found = re.search(r"^DeviceFileMinor:\s*(\d+)", nodes.read(path), re.MULTILINE)
    return int(found[1]) if found else None
