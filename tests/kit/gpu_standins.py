"""GPUs for tests: made of files of this machine where it has none, and real ones."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

import pytest

from runner.core import Gpu, GpuGrant, GpuWay, HostGpus
from tests.kit import needs

UUID = "GPU-00000000-1111-2222-3333-444444444444"

SPARE = ("/dev/kmsg", "/dev/fuse", "/dev/autofs", "/dev/loop-control", "/dev/net/tun")
"""Device files that most machines have, and no container or sandbox by itself."""

DRIVER_API = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *words):
    if code := getattr(cuda, name)(*words):
        sys.exit(f"{name}: CUDA error {code}")
count, device, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
uuid, memory = (ctypes.c_ubyte * 16)(), ctypes.c_void_p()
call("cuInit", 0)
call("cuDeviceGetCount", ctypes.byref(count))
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuDeviceGetUuid_v2", uuid, device)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
call("cuCtxSetCurrent", context)
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(1 << 28))
call("cuMemHostAlloc", ctypes.byref(memory), ctypes.c_size_t(1 << 28), 0)
print(count.value, bytes(uuid).hex())
"""
"""Counts the GPUs by CUDA's driver API; takes memory of the first and pinned memory."""


@dataclass(frozen=True)
class StandIn:
    """A machine whose GPU is made of other things; ``other`` is a GPU's not given."""

    machine: HostGpus
    gpu: Gpu
    other: str
    driver_file: Path

    def grant(self, *ways: GpuWay) -> GpuGrant:
        return GpuGrant((self.gpu,), ways or (GpuWay.NODES,), "580.1")


def stand_in(folder: Path) -> StandIn:
    """Make one of spare device files, a library and a program; skip without them."""
    spare = [path for path in SPARE if _is_device(path)]
    if len(spare) < 3:
        absent = pytest.fail if needs.REQUIRED else pytest.skip
        absent(f"this machine has too few of {', '.join(SPARE)}")
    shared, program = folder / "real-library", folder / "gpu-program"
    shared.write_text("of the driver\n")
    program.write_text("#!/bin/sh\necho a program\n")
    program.chmod(0o755)
    machine = HostGpus(
        "linux",
        driver="580.1",
        nodes=(spare[0],),
        libraries=(("libstandin.so.1", str(shared)),),
        programs=(str(program),),
    )
    return StandIn(machine, Gpu(UUID, "Stand-in", 0, (spare[1],)), spare[2], shared)


def _is_device(path: str) -> bool:
    try:
        return stat.S_ISCHR(Path(path).stat().st_mode)
    except OSError:
        return False
