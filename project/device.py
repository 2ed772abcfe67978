"""The GPU and its memory: the only importer of PyCUDA, and only when one is opened."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import prod
from types import ModuleType, TracebackType
from typing import Any, Self

import numpy as np
from errors import GpuError, NoGpuError
from variants import STATIC_SHARED, Launch

LIBCUDA = "libcuda.so.1"
LAST_ERROR = 999  # the highest of CUDA's codes


@dataclass(frozen=True, eq=False)
class DeviceArray:
    """Numbers in the GPU's memory, which is freed with the last reference."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    memory: Any  # pycuda's DeviceAllocation; int() of it is the address

    @property
    def address(self) -> int:
        """Say where the first number lies."""
        return int(self.memory)

    @property
    def nbytes(self) -> int:
        """Count the bytes."""
        return prod(self.shape) * self.dtype.itemsize


class Device:
    """The first GPU that CUDA shows, opened for a ``with`` block."""

    def __init__(self) -> None:
        self._driver = driver = _driver()
        with _faults(driver):
            device = driver.Device(0)
            self.name: str = device.name()
            self.architecture = "sm_{}{}".format(*device.compute_capability())
            version = driver.get_driver_version()
            self.cuda = (version // 1000, version % 1000 // 10)
            self.bus_id: str = device.pci_bus_id()
            self.l2_bytes: int = device.get_attribute(
                driver.device_attribute.L2_CACHE_SIZE
            )
            self.multiprocessors: int = device.get_attribute(
                driver.device_attribute.MULTIPROCESSOR_COUNT
            )
            self._context = device.retain_primary_context()

    def __enter__(self) -> Self:
        with _faults(self._driver):
            self._context.push()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # After a fault the context can be so broken that it cannot even be left, and
        # PyCUDA complains of what it cannot release.
        with suppress(self._driver.Error):
            self._context.pop()
            if not isinstance(error, GpuError):
                self._context.detach()

    def free_bytes(self) -> int:
        """Count the memory that is left."""
        with _faults(self._driver):
            free, _ = self._driver.mem_get_info()
        return int(free)

    def empty(self, shape: tuple[int, ...], dtype: str = "float32") -> DeviceArray:
        """Allocate without writing."""
        kind: np.dtype[Any] = np.dtype(dtype)
        with _faults(self._driver):
            memory = self._driver.mem_alloc(prod(shape) * kind.itemsize)
        return DeviceArray(shape, kind, memory)

    def fill(self, array: DeviceArray, byte: int) -> None:
        """Write the same byte everywhere: 0 makes zeros, 255 makes NaN."""
        with _faults(self._driver):
            self._driver.memset_d8(array.address, byte, array.nbytes)

    def upload(self, array: np.ndarray) -> DeviceArray:
        """Copy an array to the GPU."""
        there = self.empty(array.shape, array.dtype.name)
        with _faults(self._driver):
            self._driver.memcpy_htod(there.address, np.ascontiguousarray(array))
        return there

    def download(self, array: DeviceArray) -> np.ndarray:
        """Copy an array back, when all that writes it is done."""
        here = np.empty(array.shape, array.dtype)
        with _faults(self._driver):
            self._driver.memcpy_dtoh(here, array.address)
        return here

    def wait(self) -> None:
        """Return when all that was launched is done."""
        with _faults(self._driver):
            self._driver.Context.synchronize()

    def copy(self, y: DeviceArray, x: DeviceArray) -> None:
        """Copy an array to another one of the same size, on the GPU."""
        with _faults(self._driver):
            self._driver.memcpy_dtod(y.address, x.address, x.nbytes)

    def elapsed_ms(self, work: Callable[[], object]) -> float:
        """Say how long the GPU takes for what ``work`` starts, after all before it."""
        with _faults(self._driver):
            began, ended = self._driver.Event(), self._driver.Event()
            began.record()
            work()
            ended.record()
            ended.synchronize()
            return float(began.time_till(ended))

    def load(self, cubin: bytes) -> Module:
        """Load compiled kernels."""
        return Module(self._driver, cubin)


class Module:
    """Compiled kernels in the GPU."""

    def __init__(self, driver: ModuleType, cubin: bytes) -> None:
        self._driver = driver
        with _faults(driver):
            self._module = driver.module_from_buffer(cubin)
        self._kernels: dict[str, Any] = {}

    def ready(self, launch: Launch) -> None:
        """Load a kernel now, which CUDA else does in the first launch."""
        signature = "P" * len(launch.buffers) + "i" * len(launch.numbers)
        with _faults(self._driver):
            kernel = self._module.get_function(launch.kernel)
            kernel.prepare(signature)
            _ = kernel.num_regs
            if launch.shared_bytes > STATIC_SHARED:
                most = self._driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
                kernel.set_attribute(most, launch.shared_bytes)
        self._kernels[launch.kernel] = kernel

    def launch(self, launch: Launch, arrays: Mapping[str, DeviceArray]) -> None:
        """Start a kernel on its arrays; it runs after what was started before."""
        if launch.kernel not in self._kernels:
            self.ready(launch)
        pointers = [arrays[name].address for name in launch.buffers]
        with _faults(self._driver):
            self._kernels[launch.kernel].prepared_call(
                launch.grid,
                launch.block,
                *pointers,
                *launch.numbers,
                shared_size=launch.shared_bytes,
            )

    def fill_constant(self, name: str, array: DeviceArray) -> None:
        """Copy an array into a variable in constant memory."""
        with _faults(self._driver):
            address, _ = self._module.get_global(name)
            self._driver.memcpy_dtod(address, array.address, array.nbytes)


def _driver() -> ModuleType:
    """Load PyCUDA and start CUDA; what is missing is said in a sentence."""
    try:
        # For all: a PyCUDA that was built where no driver is does not ask for it.
        ctypes.CDLL(LIBCUDA, ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise NoGpuError(
            f"no GPU can be used: NVIDIA's driver is missing here ({error})"
        ) from None
    try:
        with warnings.catch_warnings(action="ignore"):
            import pycuda.driver as driver
    except ModuleNotFoundError as error:
        raise NoGpuError(
            f"no GPU can be used: Python's package {error.name} is missing; "
            "install pycuda, or run this in the image `gpu`"
        ) from None
    except ImportError as error:
        raise NoGpuError(f"no GPU can be used: pycuda does not load: {error}") from None
    try:
        driver.init()
    except driver.Error as error:
        raise NoGpuError(f"no GPU can be used: {_sentence(error)}") from None
    if driver.Device.count() == 0:
        raise NoGpuError("no GPU can be used: CUDA's driver shows none")
    return driver


@contextmanager
def _faults(driver: ModuleType) -> Iterator[None]:
    """Turn CUDA's errors into ours."""
    try:
        yield
    except driver.Error as error:
        raise GpuError(_sentence(error)) from None


def _sentence(error: Exception) -> str:
    """Say what failed, with CUDA's word for the error before it."""
    said = str(error).rstrip("\0\n -")
    _, _, text = said.partition(" failed: ")
    return f"{_word(text)}: {said}"


def _word(text: str) -> str:
    """Find the word for an error by its text, the only part that PyCUDA hands on."""
    for code in range(1, LAST_ERROR + 1):
        found = _asked("cuGetErrorString", code)
        if found and text.startswith(found):
            return _asked("cuGetErrorName", code)
    return "CUDA_ERROR_UNKNOWN"


def _asked(function: str, code: int) -> str:
    answer = ctypes.c_char_p()
    getattr(_libcuda(), function)(code, ctypes.byref(answer))
    return (answer.value or b"").decode()


def _libcuda() -> ctypes.CDLL:
    return ctypes.CDLL(LIBCUDA)
