"""Read a GPU's present state by NVML: clocks, temperature, power and processes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from runner.core import Gpu, GpuProcess, GpuState

Nvml = Any
"""The module pynvml, which has no types."""

THROTTLE = {
    0x2: "applications clocks setting",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake slowdown",
    0x100: "display clock setting",
}
"""nvmlClocksThrottleReasons of nvml.h, without idleness (0x1)."""


def of(nv: Nvml, gpu: Gpu) -> GpuState:
    """Return a GPU's state; of a slice all but the processes are its card's."""
    try:
        own = nv.nvmlDeviceGetHandleByUUID(gpu.uuid)
        card = nv.nvmlDeviceGetHandleByUUID(gpu.parent) if gpu.parent else own
        power = query(nv, nv.nvmlDeviceGetPowerUsage, card)
        clock, most = nv.nvmlDeviceGetClockInfo, nv.nvmlDeviceGetMaxClockInfo
        reasons = query(nv, nv.nvmlDeviceGetCurrentClocksThrottleReasons, card)
        heat = nv.nvmlDeviceGetTemperature
        return GpuState(
            uuid=gpu.uuid,
            sm_clock_mhz=query(nv, clock, card, nv.NVML_CLOCK_SM),
            sm_clock_most_mhz=query(nv, most, card, nv.NVML_CLOCK_SM),
            memory_clock_mhz=query(nv, clock, card, nv.NVML_CLOCK_MEM),
            temperature_c=query(nv, heat, card, nv.NVML_TEMPERATURE_GPU),
            power_w=None if power is None else power / 1000,
            throttle=throttle(reasons or 0),
            processes=_processes(nv, own),
            problem=_pending(nv, card),
        )
    except nv.NVMLError as error:
        return GpuState(gpu.uuid, problem=f"it does not answer: {error}")


def throttle(bits: int) -> tuple[str, ...]:
    """Return the names of the reasons in NVML's bit mask."""
    return tuple(words for bit, words in THROTTLE.items() if bits & bit)


def query(nv: Nvml, ask: Callable[..., Any], *about: object) -> Any:  # noqa: ANN401 - any
    """Return the result of an NVML call; None if this GPU does not support it.

    Raise the NVMLError of a GPU that is lost.
    """
    gone = (
        nv.NVML_ERROR_GPU_IS_LOST,
        nv.NVML_ERROR_RESET_REQUIRED,
        nv.NVML_ERROR_UNKNOWN,
    )
    try:
        return ask(*about)
    except nv.NVMLError as error:
        if error.value in gone:
            raise
        return None


def _processes(nv: Nvml, own: object) -> tuple[GpuProcess, ...] | None:
    running = query(nv, nv.nvmlDeviceGetComputeRunningProcesses, own)
    if running is None:
        return None
    return tuple(GpuProcess(p.pid, _name(nv, p.pid), p.usedGpuMemory) for p in running)


def _name(nv: Nvml, pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    name = query(nv, nv.nvmlSystemGetProcessName, pid)
    return Path(str(name)).name if name else ""


def _pending(nv: Nvml, card: object) -> str:
    """Return the problem of memory that is damaged or needs a reset; else ""."""
    rows = query(nv, nv.nvmlDeviceGetRemappedRows, card)
    if rows is not None:
        _, _, pending, failed = rows
        if failed:
            return "a damaged row of its memory could not be remapped"
        return "its memory has rows to be remapped by a reset" if pending else ""
    retired = query(nv, nv.nvmlDeviceGetRetiredPagesPendingStatus, card)
    return "its memory has pages to be retired by a reset" if retired else ""
