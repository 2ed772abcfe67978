"""NVML, NVIDIA's management library: the GPUs of this machine and their state.

The library comes with the driver. It is loaded by its path first, as it may lie where
the loader does not look. Calls that a GPU does not know (NOT_SUPPORTED) give None.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from runner.model import Gpu, GpuProcess, GpuState
from runner.model.noun import noun

Device = Any
"""A handle of pynvml's."""


class NvmlError(Exception):
    """NVML cannot serve; ``code`` is its nvmlReturn_t, 0 where it was not loaded."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


@noun
class Seen:
    """A GPU or slice as NVML tells it; the instances' numbers are a slice's."""

    gpu: Gpu
    minor: int
    gpu_instance: int | None = None
    compute_instance: int | None = None


@contextmanager
def session(library: str) -> Iterator[Any]:
    """Load and start NVML, and end it; gives the pynvml module."""
    try:
        ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise NvmlError(0, str(error)) from None
    import pynvml  # type: ignore[import-untyped]

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise NvmlError(error.value, str(error)) from None
    try:
        yield pynvml
    except pynvml.NVMLError as error:
        raise NvmlError(error.value, str(error)) from None
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def look(library: str) -> tuple[str, tuple[Seen, ...]]:
    """Give the driver's version and the GPUs; one in MIG mode as its slices."""
    with session(library) as nv:
        found: list[Seen] = []
        for index in range(nv.nvmlDeviceGetCount()):
            device = nv.nvmlDeviceGetHandleByIndex(index)
            whole = _whole(nv, device, index)
            slices = _mig(nv, device)
            found += [whole] if slices is None else _slices(nv, whole, slices)
        return nv.nvmlSystemGetDriverVersion(), tuple(found)


def states(library: str, gpus: tuple[Gpu, ...]) -> tuple[GpuState, ...]:
    """Look at each GPU now."""
    with session(library) as nv:
        return tuple(_state(nv, gpu) for gpu in gpus)


def _whole(nv: Any, device: Device, index: int) -> Seen:  # noqa: ANN401 - untyped
    major, minor = nv.nvmlDeviceGetCudaComputeCapability(device)
    gpu = Gpu(
        uuid=nv.nvmlDeviceGetUUID(device),
        name=nv.nvmlDeviceGetName(device),
        index=index,
        memory_bytes=int(nv.nvmlDeviceGetMemoryInfo(device).total),
        compute=f"{major}.{minor}",
    )
    return Seen(gpu, nv.nvmlDeviceGetMinorNumber(device))


def _mig(nv: Any, device: Device) -> list[Device] | None:  # noqa: ANN401 - untyped
    """Give the slices of a GPU in MIG mode; None where it is not in it."""
    mode = _told(nv, nv.nvmlDeviceGetMigMode, device)
    if mode is None or mode[0] != nv.NVML_DEVICE_MIG_ENABLE:
        return None
    most = nv.nvmlDeviceGetMaxMigDeviceCount(device)
    every = (
        _told(nv, nv.nvmlDeviceGetMigDeviceHandleByIndex, device, n)
        for n in range(most)
    )
    return [part for part in every if part is not None]


def _slices(nv: Any, whole: Seen, parts: list[Device]) -> list[Seen]:  # noqa: ANN401
    return [
        Seen(
            Gpu(
                uuid=nv.nvmlDeviceGetUUID(part),
                name=nv.nvmlDeviceGetName(part),
                index=whole.gpu.index,
                memory_bytes=int(nv.nvmlDeviceGetMemoryInfo(part).total),
                compute=whole.gpu.compute,
                parent=whole.gpu.uuid,
            ),
            whole.minor,
            nv.nvmlDeviceGetGpuInstanceId(part),
            nv.nvmlDeviceGetComputeInstanceId(part),
        )
        for part in parts
    ]


def _told(nv: Any, ask: Callable[..., Any], *about: object) -> Any:  # noqa: ANN401
    """Ask something; None where this GPU does not know it, or has nothing there."""
    try:
        return ask(*about)
    except nv.NVMLError as error:
        if error.value in _lost(nv):
            raise
        return None


def _lost(nv: Any) -> tuple[int, ...]:  # noqa: ANN401 - untyped
    return (
        nv.NVML_ERROR_GPU_IS_LOST,
        nv.NVML_ERROR_UNKNOWN,
        nv.NVML_ERROR_RESET_REQUIRED,
    )


def _state(nv: Any, gpu: Gpu) -> GpuState:  # noqa: ANN401 - untyped
    try:
        own = nv.nvmlDeviceGetHandleByUUID(gpu.uuid)
        card = nv.nvmlDeviceGetHandleByUUID(gpu.parent) if gpu.parent else own
        return _measured(nv, gpu.uuid, own, card)
    except nv.NVMLError as error:
        return GpuState(gpu.uuid, problem=str(error))


def _measured(nv: Any, uuid: str, own: Device, card: Device) -> GpuState:  # noqa: ANN401
    """Read clocks and heat of the whole card, and the processes of this part."""
    power = _told(nv, nv.nvmlDeviceGetPowerUsage, card)
    return GpuState(
        uuid=uuid,
        sm_clock_mhz=_told(nv, nv.nvmlDeviceGetClockInfo, card, nv.NVML_CLOCK_SM),
        sm_clock_most_mhz=_told(
            nv, nv.nvmlDeviceGetMaxClockInfo, card, nv.NVML_CLOCK_SM
        ),
        memory_clock_mhz=_told(nv, nv.nvmlDeviceGetClockInfo, card, nv.NVML_CLOCK_MEM),
        temperature_c=_told(
            nv, nv.nvmlDeviceGetTemperature, card, nv.NVML_TEMPERATURE_GPU
        ),
        power_w=None if power is None else power / 1000,
        throttle=throttle(
            _told(nv, nv.nvmlDeviceGetCurrentClocksThrottleReasons, card) or 0
        ),
        processes=_processes(nv, own),
        problem=_pending(nv, card),
    )


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
"""nvmlClocksThrottleReasons of nvml.h; no run suffers from idleness (0x1)."""


def throttle(bits: int) -> tuple[str, ...]:
    """Name the reasons in NVML's bit mask."""
    return tuple(words for bit, words in THROTTLE.items() if bits & bit)


def _processes(nv: Any, device: Device) -> tuple[GpuProcess, ...] | None:  # noqa: ANN401
    running = _told(nv, nv.nvmlDeviceGetComputeRunningProcesses, device)
    if running is None:
        return None
    return tuple(GpuProcess(p.pid, _name(nv, p.pid), p.usedGpuMemory) for p in running)


def _name(nv: Any, pid: int) -> str:  # noqa: ANN401 - untyped
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    told = _told(nv, nv.nvmlSystemGetProcessName, pid)
    return Path(str(told)).name if told else ""


def _pending(nv: Any, card: Device) -> str:  # noqa: ANN401 - untyped
    """Say that the card's memory is damaged, or waits for a reset to be mended."""
    rows = _told(nv, nv.nvmlDeviceGetRemappedRows, card)
    if rows is not None:
        _, _, pending, failed = rows
        if failed:
            return "a damaged row of its memory could not be remapped"
        return "its memory has rows to be remapped by a reset" if pending else ""
    retired = _told(nv, nv.nvmlDeviceGetRetiredPagesPendingStatus, card)
    return "its memory has pages to be retired by a reset" if retired else ""
