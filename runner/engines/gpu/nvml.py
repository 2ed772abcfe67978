"""Query this machine's GPUs and their state by NVML, NVIDIA's management library.

The library comes with the driver. It is first loaded by its path, as the loader may not
find it. It stays initialised until this process ends: without persistence mode each
initialisation would take a second or more.

A call to a driver that hangs never returns, and no signal ends it, so a thread makes
the calls and the caller waits for it no longer than ANSWER_S.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from msgspec import Struct

from runner.core import Gpu, GpuProcess, GpuState
from runner.engines.base import in_background

Nvml = Any
"""The module pynvml, which has no types."""

Device = Any
"""A handle of pynvml's."""

T = TypeVar("T")

ANSWER_S = 30.0
"""The time-out of a query; initialising eight GPUs takes about ten seconds."""

TIMEOUT = 10
"""NVML_ERROR_TIMEOUT of nvml.h, used here for a driver that hangs."""

_HUNG: dict[str, Future[Any]] = {}
"""The queries, by library, that did not return in time and may still hang."""

_STARTED: dict[str, Nvml] = {}
_STARTING = Lock()


class NvmlError(Exception):
    """NVML failed; ``code`` is its nvmlReturn_t, 0 if it was not loaded."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class ListedGpu(Struct, frozen=True):
    """A GPU or slice as NVML lists it; only a slice has instances' numbers.

    ``minor`` is the number of its device file; None on WSL.
    """

    gpu: Gpu
    minor: int | None
    gpu_instance: int | None = None
    compute_instance: int | None = None


class GpuList(Struct, frozen=True):
    """The driver's version and the GPUs, those in MIG mode as their slices.

    ``lost`` describes the GPUs that do not answer, ``sliced`` those in MIG mode.
    """

    driver: str
    gpus: tuple[ListedGpu, ...] = ()
    lost: tuple[str, ...] = ()
    sliced: tuple[str, ...] = ()


def list_gpus(library: str) -> GpuList:
    """Return all GPUs; raise NvmlError if the library fails."""
    return _in_time(library, _list_gpus)


def states(library: str, gpus: Sequence[Gpu]) -> tuple[GpuState, ...]:
    """Return the present state of each GPU; raise NvmlError if the library fails."""
    return _in_time(library, lambda nv: tuple(_state(nv, gpu) for gpu in gpus))


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


def _state(nv: Nvml, gpu: Gpu) -> GpuState:
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
    try:
        name = query(nv, nv.nvmlSystemGetProcessName, pid)
    except UnicodeDecodeError:  # of any user, who chose it
        return ""
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


def _in_time(library: str, query: Callable[[Nvml], T]) -> T:
    """Run a query in a daemon thread; raise NvmlError if it takes over ANSWER_S.

    While an earlier query hangs no other is started, since it would hang too.
    """

    def run() -> T:
        with _session(library) as nv:
            try:
                return query(nv)
            except NvmlError:
                raise
            except Exception as error:
                raise NvmlError(0, f"{type(error).__name__}: {error}") from error

    earlier = _HUNG.get(library)
    if earlier is None or earlier.done():
        asked = in_background(run)
        try:
            return asked.result(ANSWER_S)
        except TimeoutError:
            _HUNG[library] = asked
    raise NvmlError(TIMEOUT, f"NVML gave no answer in {ANSWER_S:g} s")


def _list_gpus(nv: Nvml) -> GpuList:
    gpus: list[ListedGpu] = []
    lost: list[str] = []
    sliced: list[str] = []
    for index in range(nv.nvmlDeviceGetCount()):
        try:
            found = _card(nv, index)
        except nv.NVMLError as error:
            lost.append(f"GPU {index}: {error}")
            continue
        gpus += found.gpus
        sliced += found.sliced
    driver = str(nv.nvmlSystemGetDriverVersion())
    return GpuList(driver, tuple(gpus), tuple(lost), tuple(sliced))


@contextmanager
def _session(library: str) -> Iterator[Nvml]:
    """Yield pynvml with NVML initialised; shut it down after an error."""
    nv = _started(library)
    try:
        yield nv
    except nv.NVMLError as error:
        with _STARTING, suppress(nv.NVMLError):
            _STARTED.pop(library, None)
            nv.nvmlShutdown()
        raise NvmlError(error.value, str(error)) from None


def _started(library: str) -> Nvml:
    with _STARTING:
        if library in _STARTED:
            return _STARTED[library]
        import ctypes

        try:
            # pynvml loads it by its soname, which the loader then knows.
            ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
            import pynvml  # type: ignore[import-untyped]
        except (OSError, ImportError) as error:
            raise NvmlError(0, str(error)) from None

        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise NvmlError(error.value, str(error)) from None
        _STARTED[library] = pynvml
        return pynvml


def _card(nv: Nvml, index: int) -> GpuList:
    """Return one card: as a whole, or as its slices if it is in MIG mode."""
    device = nv.nvmlDeviceGetHandleByIndex(index)
    compute = query(nv, nv.nvmlDeviceGetCudaComputeCapability, device)
    whole = Gpu(
        uuid=nv.nvmlDeviceGetUUID(device),
        name=nv.nvmlDeviceGetName(device),
        index=index,
        memory_bytes=_memory(nv, device),
        compute=".".join(map(str, compute or ())),
    )
    number = query(nv, nv.nvmlDeviceGetMinorNumber, device)
    parts = _slices(nv, device)
    if parts is None:
        return GpuList("", (ListedGpu(whole, number),))
    slices = tuple(_slice(nv, whole, number, part) for part in parts)
    return GpuList("", slices, sliced=(whole.shown,))


def _slices(nv: Nvml, device: Device) -> list[Device] | None:
    """Return NVML's handles of a GPU's slices; None if it is not in MIG mode."""
    mode = query(nv, nv.nvmlDeviceGetMigMode, device)
    if mode is None or mode[0] != nv.NVML_DEVICE_MIG_ENABLE:
        return None
    get = nv.nvmlDeviceGetMigDeviceHandleByIndex
    most = nv.nvmlDeviceGetMaxMigDeviceCount(device)
    found = (query(nv, get, device, number) for number in range(most))
    return [handle for handle in found if handle is not None]


def _memory(nv: Nvml, device: Device) -> int:
    """Return its memory in bytes; 0 if it shares the machine's."""
    memory = query(nv, nv.nvmlDeviceGetMemoryInfo, device)
    return int(memory.total) if memory else 0


def _slice(nv: Nvml, whole: Gpu, minor: int | None, part: Device) -> ListedGpu:
    gpu = Gpu(
        uuid=nv.nvmlDeviceGetUUID(part),
        name=nv.nvmlDeviceGetName(part),
        index=whole.index,
        memory_bytes=_memory(nv, part),
        compute=whole.compute,
        parent=whole.uuid,
    )
    instances = (
        nv.nvmlDeviceGetGpuInstanceId(part),
        nv.nvmlDeviceGetComputeInstanceId(part),
    )
    return ListedGpu(gpu, minor, *instances)
