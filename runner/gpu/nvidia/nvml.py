"""NVML, NVIDIA's management library: the GPUs of this machine and their state.

The library comes with the driver. It is loaded by its path first, as it may lie where
the loader does not look. It stays started until this process ends: without persistence
mode each start would bring the GPUs up anew, which takes a second or more.

A driver that hangs answers no call, and no signal ends one that waits for it: so the
asking is left to a thread, which is not waited for longer than ANSWER_S.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock, Thread
from typing import Any, TypeVar

from msgspec import Struct

from runner.core import Gpu, GpuState
from runner.gpu.nvidia import state

Nvml = Any
"""The module pynvml, which has no types."""

Device = Any
"""A handle of pynvml's."""

T = TypeVar("T")

ANSWER_S = 30.0
"""How long it may take; eight GPUs are brought up in ten seconds or so."""

TIMEOUT = 10
"""NVML_ERROR_TIMEOUT of nvml.h: said here of a driver that hangs."""

_HUNG: dict[str, Thread] = {}
"""The questions, by library, that got no answer in time, and may still wait for it."""

_STARTED: dict[str, Nvml] = {}
_STARTING = Lock()


class NvmlError(Exception):
    """NVML cannot serve; ``code`` is its nvmlReturn_t, 0 where it was not loaded."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Seen(Struct, frozen=True):
    """A GPU or slice as NVML tells it; the instances' numbers are a slice's.

    ``minor`` numbers its device file; under WSL it has none.
    """

    gpu: Gpu
    minor: int | None
    gpu_instance: int | None = None
    compute_instance: int | None = None


class Look(Struct, frozen=True):
    """The driver's version and the GPUs, those in MIG mode as their slices.

    ``lost`` says of each that does not answer what it is, ``unsliced`` names those in
    MIG mode without a slice.
    """

    driver: str
    seen: tuple[Seen, ...] = ()
    lost: tuple[str, ...] = ()
    unsliced: tuple[str, ...] = ()


def look(library: str) -> Look:
    """Ask for all GPUs; NvmlError where the library cannot serve."""
    return _answer(library, lambda: _look(library))


def states(library: str, gpus: Sequence[Gpu]) -> tuple[GpuState, ...]:
    """Look at each GPU now; NvmlError where the library cannot serve."""
    return _answer(library, lambda: _states(library, gpus))


def _answer(library: str, ask: Callable[[], T]) -> T:
    """Ask in a thread that no end of this process waits for; NvmlError for no answer.

    While one question hangs, no other is asked: it would hang as well.
    """
    said: list[T | NvmlError] = []

    def take() -> None:
        try:
            said.append(ask())
        except NvmlError as error:
            said.append(error)

    earlier = _HUNG.get(library)
    if earlier is None or not earlier.is_alive():
        thread = Thread(target=take, daemon=True)
        thread.start()
        thread.join(ANSWER_S)
        if thread.is_alive():
            _HUNG[library] = thread
    if not said:
        raise NvmlError(TIMEOUT, f"NVML gave no answer in {ANSWER_S:g} s")
    if isinstance(said[0], NvmlError):
        raise said[0]
    return said[0]


def _look(library: str) -> Look:
    with _session(library) as nv:
        seen: list[Seen] = []
        lost: list[str] = []
        unsliced: list[str] = []
        for index in range(nv.nvmlDeviceGetCount()):
            try:
                found = _card(nv, index)
            except nv.NVMLError as error:
                lost.append(f"GPU {index}: {error}")
                continue
            seen += found.seen
            unsliced += found.unsliced
        driver = str(nv.nvmlSystemGetDriverVersion())
        return Look(driver, tuple(seen), tuple(lost), tuple(unsliced))


def _states(library: str, gpus: Sequence[Gpu]) -> tuple[GpuState, ...]:
    with _session(library) as nv:
        return tuple(state.of(nv, gpu) for gpu in gpus)


@contextmanager
def _session(library: str) -> Iterator[Nvml]:
    """Give pynvml with NVML started; after an error the next use starts it anew."""
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
            # pynvml asks the loader for the soname, which is then there already.
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


def _card(nv: Nvml, index: int) -> Look:
    """Look at one card: as a whole, or as its slices where it is in MIG mode."""
    device = nv.nvmlDeviceGetHandleByIndex(index)
    compute = state.told(nv, nv.nvmlDeviceGetCudaComputeCapability, device)
    whole = Gpu(
        uuid=nv.nvmlDeviceGetUUID(device),
        name=nv.nvmlDeviceGetName(device),
        index=index,
        memory_bytes=_memory(nv, device),
        compute=".".join(map(str, compute or ())),
    )
    number = state.told(nv, nv.nvmlDeviceGetMinorNumber, device)
    parts = _parts(nv, device)
    if parts is None:
        return Look("", (Seen(whole, number),))
    slices = tuple(_slice(nv, whole, number, part) for part in parts)
    unsliced = () if slices else (f"GPU {index} ({whole.name}, {whole.uuid})",)
    return Look("", slices, unsliced=unsliced)


def _memory(nv: Nvml, device: Device) -> int:
    """Give its bytes; 0 where it has none of its own, but shares the machine's."""
    memory = state.told(nv, nv.nvmlDeviceGetMemoryInfo, device)
    return int(memory.total) if memory else 0


def _parts(nv: Nvml, device: Device) -> list[Device] | None:
    """Give the handles of a GPU's slices; None where it is not in MIG mode."""
    mode = state.told(nv, nv.nvmlDeviceGetMigMode, device)
    if mode is None or mode[0] != nv.NVML_DEVICE_MIG_ENABLE:
        return None
    ask = nv.nvmlDeviceGetMigDeviceHandleByIndex
    most = nv.nvmlDeviceGetMaxMigDeviceCount(device)
    parts = (state.told(nv, ask, device, number) for number in range(most))
    return [part for part in parts if part is not None]


def _slice(nv: Nvml, whole: Gpu, minor: int | None, part: Device) -> Seen:
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
    return Seen(gpu, minor, *instances)
