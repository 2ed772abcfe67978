"""CUDA's driver, as far as a measurement needs it, through ctypes.

Names and values are those of cuda.h (CUDA Driver API).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from ctypes import c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from dataclasses import dataclass

LIBRARY = "libcuda.so.1"

NAME_BYTES = 256
COMPUTE_MAJOR, COMPUTE_MINOR = 75, 76
MULTIPROCESSORS, L2_BYTES = 16, 38
PRINTF_BYTES, HEAP_BYTES = 1, 2  # of cuCtxSetLimit
MOST_DYNAMIC_SHARED = 8
MOST_PARAMETER_BYTES = 32 << 10  # of all parameters of a kernel
STATIC_SHARED = 48 << 10
NON_BLOCKING = 1  # a stream that the default stream does not wait for
DEVICE, PINNED, FILE_DESCRIPTOR = 1, 1, 1
READ, READ_WRITE = 1, 3
HOST_MEMORY, DEVICE_MEMORY = 1, 2  # of CUDA_MEMCPY2D
MAPPED = 2  # of cuMemHostRegister
RELAXED = 2  # of cuStreamBeginCapture: calls of other threads do not disturb it


class CudaError(Exception):
    """A call of the driver failed; ``name`` is such as CUDA_ERROR_ILLEGAL_ADDRESS."""

    def __init__(self, name: str, function: str) -> None:
        super().__init__(f"{name} in {function}")
        self.name = name


class _Location(ctypes.Structure):
    _fields_ = (("type", c_int), ("id", c_int))


class _Allocation(ctypes.Structure):
    _fields_ = (
        ("type", c_int),
        ("handles", c_int),
        ("location", _Location),
        ("windows", c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class _Access(ctypes.Structure):
    _fields_ = (("location", _Location), ("flags", c_int))


class _Copy2D(ctypes.Structure):
    """CUDA_MEMCPY2D: of its source, then of its destination, then the size."""

    _fields_ = (
        *(
            (f"{side}_{name}", kind)
            for side in ("source", "to")
            for name, kind in (
                ("x", c_size_t),
                ("y", c_size_t),
                ("type", c_int),
                ("host", c_void_p),
                ("device", c_uint64),
                ("array", c_void_p),
                ("pitch", c_size_t),
            )
        ),
        ("width", c_size_t),
        ("height", c_size_t),
    )


@dataclass(frozen=True)
class GpuFacts:
    """What the driver says of a GPU; ``uuid`` as nvidia-smi prints it."""

    name: str
    uuid: str
    architecture: str
    driver: str
    memory_bytes: int
    multiprocessors: int
    l2_bytes: int


@dataclass(frozen=True)
class Kernel:
    """A kernel of a loaded module."""

    handle: c_void_p


@dataclass(frozen=True)
class Region:
    """A mapped range of the GPU's memory; ``handle`` is its physical memory."""

    address: int
    size: int
    handle: int


class Cuda:
    """The first GPU, and a context of this process on it."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(LIBRARY)
        self._call("cuInit", c_uint(0))
        self._device = c_int()
        self._call("cuDeviceGet", ctypes.byref(self._device), c_int(0))
        self._context = c_void_p()
        retained = ctypes.byref(self._context)
        self._call("cuDevicePrimaryCtxRetain", retained, self._device)
        self._call("cuCtxSetCurrent", self._context)

    def _call(self, name: str, *arguments: object) -> None:
        """Call a function; raise CudaError."""
        code = getattr(self._library, name)(*arguments)
        if code:
            raise CudaError(self._error(code), name)

    def _error(self, code: int) -> str:
        text = c_char_p()
        self._library.cuGetErrorName(c_int(code), ctypes.byref(text))
        return (text.value or b"CUDA_ERROR_UNKNOWN").decode()

    def facts(self) -> GpuFacts:
        """Return what the driver says of the GPU."""
        name, uuid = ctypes.create_string_buffer(NAME_BYTES), (ctypes.c_ubyte * 16)()
        self._call("cuDeviceGetName", name, c_int(NAME_BYTES), self._device)
        self._call("cuDeviceGetUuid_v2", ctypes.byref(uuid), self._device)
        version, memory = c_int(), c_size_t()
        self._call("cuDriverGetVersion", ctypes.byref(version))
        self._call("cuDeviceTotalMem_v2", ctypes.byref(memory), self._device)
        digits = bytes(uuid).hex()
        parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
        major, minor = map(self.attribute, (COMPUTE_MAJOR, COMPUTE_MINOR))
        return GpuFacts(
            name.value.decode(),
            f"GPU-{'-'.join(parts)}",
            f"sm_{major}{minor}",
            f"{version.value // 1000}.{version.value % 1000 // 10}",
            memory.value,
            self.attribute(MULTIPROCESSORS),
            self.attribute(L2_BYTES),
        )

    def attribute(self, which: int) -> int:
        """Return an attribute of the GPU."""
        value = c_int()
        found = ctypes.byref(value)
        self._call("cuDeviceGetAttribute", found, c_int(which), self._device)
        return value.value

    def limit(self, which: int, value: int) -> None:
        """Set a limit of the context, such as PRINTF_BYTES."""
        self._call("cuCtxSetLimit", c_int(which), c_size_t(value))

    def wait(self) -> None:
        """Wait for all work of the context."""
        self._call("cuCtxSynchronize")

    def allocate(self, size: int) -> int:
        """Return the address of new memory of this process alone."""
        address = c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), c_size_t(size))
        return address.value

    def free(self, address: int) -> None:
        """Free memory of ``allocate``."""
        self._call("cuMemFree_v2", c_uint64(address))

    def pinned(self, size: int) -> int:
        """Return the address of host memory that kernels can write to."""
        address = c_void_p()
        self._call("cuMemAllocHost_v2", ctypes.byref(address), c_size_t(size))
        return address.value or 0

    def register(self, address: int, size: int) -> int:
        """Let the GPU write to memory of this process; return where it sees it."""
        flags, found = c_uint(MAPPED), c_uint64()
        self._call("cuMemHostRegister_v2", c_void_p(address), c_size_t(size), flags)
        seen = ctypes.byref(found), c_void_p(address), c_uint(0)
        self._call("cuMemHostGetDevicePointer_v2", *seen)
        return found.value

    def download(self, address: int, size: int) -> bytes:
        """Copy GPU memory to the host, after the work that writes it."""
        copy = ctypes.create_string_buffer(size)
        self._call("cuMemcpyDtoH_v2", copy, c_uint64(address), c_size_t(size))
        return copy.raw

    def clear(self, address: int, size: int, stream: CudaStream) -> None:
        """Set bytes to zero."""
        bytes_ = c_uint64(address), ctypes.c_ubyte(0), c_size_t(size)
        self._call("cuMemsetD8Async", *bytes_, stream.handle)

    def copy(self, to: int, source: int, size: int, stream: CudaStream) -> None:
        """Copy on the GPU, in a stream."""
        addresses = c_uint64(to), c_uint64(source), c_size_t(size)
        self._call("cuMemcpyDtoDAsync_v2", *addresses, stream.handle)

    def forget_persisting(self) -> None:
        """Make all lines of the L2 cache ordinary ones again."""
        self._call("cuCtxResetPersistingL2Cache")

    def _properties(self) -> _Allocation:
        here = _Location(DEVICE, self._device.value)
        return _Allocation(PINNED, FILE_DESCRIPTOR, here)

    def share(self, size: int) -> Region:
        """Create memory that another process can map too."""
        properties = ctypes.byref(self._properties())
        step = c_size_t()
        least = ctypes.byref(step), properties, c_int(0)
        self._call("cuMemGetAllocationGranularity", *least)
        size = -(-size // step.value) * step.value
        handle = c_uint64()
        created = ctypes.byref(handle), c_size_t(size), properties, c_uint64(0)
        self._call("cuMemCreate", *created)
        return self._mapped(handle, size, READ_WRITE)

    def descriptor(self, region: Region) -> int:
        """Return a file descriptor of shared memory, to pass to another process."""
        found = c_int(-1)
        handle = ctypes.byref(found), c_uint64(region.handle)
        kind = c_int(FILE_DESCRIPTOR), c_uint64(0)
        self._call("cuMemExportToShareableHandle", *handle, *kind)
        return found.value

    def map(self, descriptor: int, size: int, access: int) -> Region:
        """Map memory that another process shares; close the descriptor."""
        handle = c_uint64()
        given = ctypes.byref(handle), c_void_p(descriptor), c_int(FILE_DESCRIPTOR)
        self._call("cuMemImportFromShareableHandle", *given)
        os.close(descriptor)
        return self._mapped(handle, size, access)

    def _mapped(self, handle: c_uint64, size: int, access: int) -> Region:
        address = c_uint64()
        place = ctypes.byref(address), c_size_t(size), c_size_t(0), c_uint64(0)
        self._call("cuMemAddressReserve", *place, c_uint64(0))
        where = address, c_size_t(size), c_size_t(0)
        self._call("cuMemMap", *where, handle, c_uint64(0))
        wanted = _Access(_Location(DEVICE, self._device.value), access)
        rights = ctypes.byref(wanted), c_size_t(1)
        self._call("cuMemSetAccess", address, c_size_t(size), *rights)
        return Region(address.value, size, handle.value)

    def load(self, image: bytes) -> Module:
        """Load a cubin or PTX."""
        handle = c_void_p()
        # PTX is read up to a NUL byte.
        self._call("cuModuleLoadData", ctypes.byref(handle), c_char_p(image))
        return Module(self, handle)

    def stream(self) -> CudaStream:
        """Return a new stream."""
        handle = c_void_p()
        self._call("cuStreamCreate", ctypes.byref(handle), c_uint(NON_BLOCKING))
        return CudaStream(self, handle)


class Module:
    """A loaded module."""

    def __init__(self, cuda: Cuda, handle: c_void_p) -> None:
        self._cuda, self._handle = cuda, handle

    def kernel(self, name: str, shared_bytes: int = 0) -> Kernel:
        """Return a kernel, ready for so many bytes of dynamic shared memory."""
        call, handle = self._cuda._call, c_void_p()
        call("cuModuleGetFunction", ctypes.byref(handle), self._handle, name.encode())
        if shared_bytes > STATIC_SHARED:
            most = c_int(MOST_DYNAMIC_SHARED), c_int(shared_bytes)
            call("cuFuncSetAttribute", handle, *most)
        return Kernel(handle)

    def variable(self, name: str) -> tuple[int, int]:
        """Return the address and the size in bytes of a global variable."""
        address, size = c_uint64(), c_size_t()
        found = ctypes.byref(address), ctypes.byref(size)
        self._cuda._call("cuModuleGetGlobal_v2", *found, self._handle, name.encode())
        return address.value, size.value


class CudaStream:
    """A queue of work on the GPU."""

    def __init__(self, cuda: Cuda, handle: c_void_p) -> None:
        self._call, self.handle = cuda._call, handle

    def launch(
        self,
        kernel: Kernel,
        grid: Sequence[int],
        block: Sequence[int],
        arguments: Sequence[int],
        shared_bytes: int = 0,
    ) -> None:
        """Launch a kernel; each argument is passed in 8 bytes, little end first.

        A parameter that is larger than an argument gets zeros after it.
        """
        values = (ctypes.c_int64 * (len(arguments) + MOST_PARAMETER_BYTES // 8))()
        for n, value in enumerate(arguments):
            values[n] = ctypes.c_int64(value).value
        # The list ends with NULL, for drivers that cannot know how many there are.
        pointers = (c_void_p * (len(arguments) + 1))()
        for n in range(len(arguments)):
            pointers[n] = ctypes.addressof(values) + 8 * n
        sizes = (c_uint(n) for n in (*grid, *block, shared_bytes))
        given = self.handle, pointers, c_void_p()
        self._call("cuLaunchKernel", kernel.handle, *sizes, *given)

    @contextmanager
    def captured(self) -> Iterator[Graph]:
        """Yield a graph of what the block does with the stream, ready after it."""
        self._call("cuStreamBeginCapture_v2", self.handle, c_int(RELAXED))
        graph, nodes = Graph(self), c_void_p()
        ends = self.handle, ctypes.byref(nodes)
        try:
            yield graph
        except BaseException:
            with suppress(CudaError):  # the first fault says more
                self._call("cuStreamEndCapture", *ends)
            raise
        self._call("cuStreamEndCapture", *ends)
        graph.make(nodes)

    def write(self, address: int, value: int) -> None:
        """Write 32 bits after all work so far; other processes see it at once."""
        given = c_uint64(address), c_uint(value), c_uint(0)
        self._call("cuStreamWriteValue32_v2", self.handle, *given)

    def copy_rows(
        self, to: int, source: int, width: int, pitch: int, rows: int
    ) -> None:
        """Copy rows of ``width`` bytes, ``pitch`` apart, to pinned memory."""
        one = _Copy2D(width=width, height=rows, to_pitch=width, source_pitch=pitch)
        one.source_type, one.source_device = DEVICE_MEMORY, source
        one.to_type, one.to_host = HOST_MEMORY, to
        self._call("cuMemcpy2DAsync_v2", ctypes.byref(one), self.handle)

    def wait(self) -> None:
        """Wait for all work in the stream."""
        self._call("cuStreamSynchronize", self.handle)

    def record(self, event: Event) -> None:
        """Record an event after what was launched so far."""
        self._call("cuEventRecord", event.handle, self.handle)


class Graph:
    """Work that a stream starts with one call, however many launches it has."""

    def __init__(self, stream: CudaStream) -> None:
        self._call, self._stream = stream._call, stream.handle
        self._handle = c_void_p()

    def make(self, nodes: c_void_p) -> None:
        """Take the captured work, and bring it to the GPU."""
        made = ctypes.byref(self._handle), nodes, c_uint64(0)
        try:
            self._call("cuGraphInstantiateWithFlags", *made)
        finally:
            self._call("cuGraphDestroy", nodes)
        self._call("cuGraphUpload", self._handle, self._stream)

    def launch(self) -> None:
        """Start the work."""
        self._call("cuGraphLaunch", self._handle, self._stream)

    def close(self) -> None:
        """Forget it, after its work has ended."""
        self._call("cuGraphExecDestroy", self._handle)


class Event:
    """A moment in a stream."""

    def __init__(self, cuda: Cuda) -> None:
        self._call, self.handle = cuda._call, c_void_p()
        self._call("cuEventCreate", ctypes.byref(self.handle), c_uint(0))

    def ms_until(self, later: Event) -> float:
        """Return the milliseconds from this event to another, both passed."""
        found = c_float()
        self._call("cuEventElapsedTime", ctypes.byref(found), self.handle, later.handle)
        return float(found.value)
