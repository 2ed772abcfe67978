"""The GPU and its memory. Only this module imports PyCUDA, when a GPU is opened."""

from __future__ import annotations

import ctypes
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import prod
from types import ModuleType, TracebackType
from typing import Any, Self

import numpy as np
from course.errors import GpuError, NoGpuError
from course.variants import STATIC_SHARED, Gpu, Launch

LIBCUDA = "libcuda.so.1"
LAST_ERROR = 999  # CUDA's highest error code
RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED


@dataclass(frozen=True, eq=False)
class DeviceArray:
    """An array in the GPU's memory, freed with its last reference."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    memory: Any  # int() of it is the address; it is freed with its last reference

    @property
    def address(self) -> int:
        """Return the address of the first element."""
        return int(self.memory)

    @property
    def nbytes(self) -> int:
        """Return the size in bytes."""
        return prod(self.shape) * self.dtype.itemsize


class _Owned:
    """What PyCUDA can free only in the thread that opened the GPU.

    Python may collect garbage in any thread. What is let go in another one is kept in
    a list, which the device clears.
    """

    def __init__(self, held: object, let_go: list[Any]) -> None:
        self.held: Any = held
        self._let_go = let_go
        self._owner = threading.get_ident()

    def __int__(self) -> int:
        return int(self.held)

    def __del__(self) -> None:
        if threading.get_ident() != self._owner:
            self._let_go.append(self.held)


class Device:
    """CUDA's first GPU, to be used in a ``with`` statement."""

    def __init__(self) -> None:
        self._driver = driver = _driver()
        with _faults(driver):
            device = driver.Device(0)
            self.name: str = device.name()
            version = driver.get_driver_version()
            self.cuda = (version // 1000, version % 1000 // 10)
            self.bus_id: str = device.pci_bus_id()
            self.l2_bytes: int = device.get_attribute(
                driver.device_attribute.L2_CACHE_SIZE
            )
            self.gpu = Gpu(
                "sm_{}{}".format(*device.compute_capability()),
                device.get_attribute(driver.device_attribute.MULTIPROCESSOR_COUNT),
            )
            self._context = device.retain_primary_context()
        self._let_go: list[Any] = []
        self.stream: Any = None  # that of all launches, while they are recorded

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
        # After an error the context may fail to pop, and PyCUDA prints an error for
        # everything that it cannot release.
        with suppress(self._driver.Error):
            self._let_go.clear()
            self._context.pop()
            if not isinstance(error, GpuError):
                self._context.detach()

    def free_bytes(self) -> int:
        """Return the bytes of free memory."""
        with _faults(self._driver):
            free, _ = self._driver.mem_get_info()
        return int(free)

    def empty(self, shape: tuple[int, ...], dtype: str = "float32") -> DeviceArray:
        """Allocate an array without initialising it."""
        kind: np.dtype[Any] = np.dtype(dtype)
        self._let_go.clear()
        with _faults(self._driver):
            memory = self._driver.mem_alloc(prod(shape) * kind.itemsize)
        return DeviceArray(shape, kind, _Owned(memory, self._let_go))

    def fill(self, array: DeviceArray, byte: int) -> None:
        """Set every byte of an array: 0 gives zeros, 255 gives NaN."""
        with _faults(self._driver):
            self._driver.memset_d8(array.address, byte, array.nbytes)

    def upload(self, array: np.ndarray) -> DeviceArray:
        """Copy an array to the GPU."""
        uploaded = self.empty(array.shape, array.dtype.name)
        with _faults(self._driver):
            self._driver.memcpy_htod(uploaded.address, np.ascontiguousarray(array))
        return uploaded

    def download(self, array: DeviceArray) -> np.ndarray:
        """Copy an array to the host after the work that writes it."""
        copy = np.empty(array.shape, array.dtype)
        with _faults(self._driver):
            self._driver.memcpy_dtoh(copy, array.address)
        return copy

    def wait(self) -> None:
        """Wait for all launched work."""
        with _faults(self._driver):
            self._driver.Context.synchronize()

    def copy(self, y: DeviceArray, x: DeviceArray) -> None:
        """Copy an array to another of the same size, on the GPU."""
        with _faults(self._driver):
            self._driver.memcpy_dtod(y.address, x.address, x.nbytes)

    def elapsed_ms(
        self, work: Callable[[], object], then: Callable[[], object] = lambda: None
    ) -> float:
        """Return the GPU's milliseconds for what ``work`` starts, by CUDA events.

        What ``then`` starts follows at once, and does not count.
        """
        with _faults(self._driver):
            began, ended = self._driver.Event(), self._driver.Event()
            began.record()
            work()
            ended.record()
            then()
            ended.synchronize()
            return float(began.time_till(ended))

    def recorded(self, work: Callable[[], object]) -> Callable[[], None]:
        """Record launches as a CUDA graph; return what starts all of them at once.

        Their kernels must be loaded, and their arrays live as long as the graph.
        """
        self.stream = self._driver.Stream()
        handle = ctypes.c_void_p(self.stream.handle)
        graph, ready = ctypes.c_void_p(), ctypes.c_void_p()
        _call("cuStreamBeginCapture_v2", handle, RELAXED)
        try:
            work()
        finally:
            _call("cuStreamEndCapture", handle, ctypes.byref(graph))
            self.stream = None
        flags = ctypes.c_ulonglong(0)
        _call("cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, flags)
        return lambda: _call("cuGraphLaunch", ready, None)

    def load(self, cubin: bytes) -> Module:
        """Load compiled kernels."""
        return Module(self, self._driver, cubin, self._let_go)


class Module:
    """Compiled kernels loaded on the GPU."""

    def __init__(
        self, device: Device, driver: ModuleType, cubin: bytes, let_go: list[Any]
    ) -> None:
        self._device, self._driver = device, driver
        with _faults(driver):
            self._module = _Owned(driver.module_from_buffer(cubin), let_go)
        self._kernels: dict[str, Any] = {}

    def ready(self, launch: Launch) -> None:
        """Load a kernel now, which CUDA otherwise does at its first launch."""
        signature = "P" * len(launch.buffers) + "i" * len(launch.numbers)
        with _faults(self._driver):
            kernel = self._module.held.get_function(launch.kernel)
            kernel.prepare(signature)
            _ = kernel.num_regs
            if launch.shared_bytes > STATIC_SHARED:
                most = self._driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
                kernel.set_attribute(most, launch.shared_bytes)
        self._kernels[launch.kernel] = kernel

    def launch(self, launch: Launch, arrays: Mapping[str, DeviceArray]) -> None:
        """Launch a kernel; it runs after all that was launched before."""
        if launch.kernel not in self._kernels:
            self.ready(launch)
        pointers = [arrays[name].address for name in launch.buffers]
        with _faults(self._driver):
            self._kernels[launch.kernel].prepared_async_call(
                launch.grid,
                launch.block,
                self._device.stream,
                *pointers,
                *launch.numbers,
                shared_size=launch.shared_bytes,
            )

    def fill_constant(self, name: str, array: DeviceArray) -> None:
        """Copy an array into a variable in constant memory."""
        with _faults(self._driver):
            address, _ = self._module.held.get_global(name)
            self._driver.memcpy_dtod(address, array.address, array.nbytes)


def _driver() -> ModuleType:
    """Import PyCUDA and initialise CUDA; raise NoGpuError."""
    try:
        # RTLD_GLOBAL: a PyCUDA built without a driver is not linked to it.
        ctypes.CDLL(LIBCUDA, ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise NoGpuError(
            f"cannot use a GPU: NVIDIA's driver is not installed ({error})"
        ) from None
    try:
        with warnings.catch_warnings(action="ignore"):
            import pycuda.driver as driver
    except ModuleNotFoundError as error:
        raise NoGpuError(
            f"cannot use a GPU: the Python package {error.name} is not installed; "
            "run `pip install -e '.[gpu]'` at the project's top"
        ) from None
    except ImportError as error:
        raise NoGpuError(f"cannot use a GPU: pycuda does not load: {error}") from None
    try:
        driver.init()
    except driver.Error as error:
        raise NoGpuError(f"cannot use a GPU: {_message(error)}") from None
    if driver.Device.count() == 0:
        raise NoGpuError("cannot use a GPU: CUDA's driver finds none")
    return driver


@contextmanager
def _faults(driver: ModuleType) -> Iterator[None]:
    """Convert CUDA's errors to GpuError."""
    try:
        yield
    except driver.Error as error:
        raise GpuError(_message(error)) from None


def _message(error: Exception) -> str:
    """Return an error's text after CUDA's name for it, such as CUDA_ERROR_UNKNOWN."""
    message = str(error).rstrip("\0\n -")
    _, _, text = message.partition(" failed: ")
    return f"{_error_name(text)}: {message}"


def _error_name(text: str) -> str:
    """Find an error's name by its text: PyCUDA passes on neither name nor code."""
    for code in range(1, LAST_ERROR + 1):
        found = _cuda_string("cuGetErrorString", code)
        if found and text.startswith(found):
            return _cuda_string("cuGetErrorName", code)
    return "CUDA_ERROR_UNKNOWN"


def _call(function: str, *arguments: object) -> None:
    """Call the driver; raise GpuError."""
    if code := getattr(_libcuda(), function)(*arguments):
        name = _cuda_string("cuGetErrorName", code)
        raise GpuError(f"{name}: {function} failed")


def _cuda_string(function: str, code: int) -> str:
    answer = ctypes.c_char_p()
    getattr(_libcuda(), function)(code, ctypes.byref(answer))
    return (answer.value or b"").decode()


def _libcuda() -> ctypes.CDLL:
    return ctypes.CDLL(LIBCUDA)
