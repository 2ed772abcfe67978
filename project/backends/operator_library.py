"""The C++ library of MXNet's operator ``New``, compiled here and called by ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_double, c_int, c_size_t, c_uint
from dataclasses import astuple, dataclass
from pathlib import Path

from course.errors import GpuError, NoGpuError, ProjectError, UsageError
from course.shapes import ConvShape
from course.variants import Gpu, Launch, Variant
from gpu import compiler
from host import native

LIBCUDA = "libcuda.so.1"
STORAGE = "float32"  # the type of MXNet's arrays
BUFFERS = ("y", "x", "k")  # in the order of cpp/gpu.h, followed by scratch buffers
MOST_BUFFERS, MOST_NUMBERS = 8, 16
CPP = Path(__file__).resolve().parents[1] / "cpp"
SOURCES = tuple(CPP / f"{name}.cpp" for name in ("forward", "gpu", "convolution"))


def build(mxnet: Path) -> Path:
    """Build the library against MXNet's package folder, or return the cached one."""
    return native.build(
        native.Library(
            "New",
            SOURCES,
            includes=(mxnet / "include",),
            options=("-ldl",),
            unoptimised=(mxnet / "src" / "lib_api.cc", CPP / "operator.cpp"),
        )
    )


class _Launch(ctypes.Structure):
    """A kernel launch, with the layout of ``rai::Launch`` in cpp/gpu.h."""

    _fields_ = (
        ("kernel", c_char_p),
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared_bytes", c_uint),
        ("buffer_count", c_int),
        ("number_count", c_int),
        ("buffers", c_int * MOST_BUFFERS),
        ("numbers", c_int * MOST_NUMBERS),
    )


@dataclass(frozen=True)
class OpenGpu(Gpu):
    """The GPU that the operator computes on."""

    cuda: tuple[int, int]  # the CUDA version that its driver supports


@dataclass(frozen=True)
class Plan:
    """How convolutions of a shape are computed on the GPU."""

    shape: ConvShape
    cubin: bytes
    part: Variant


def plans(variant: Variant, shapes: Sequence[ConvShape], gpu: OpenGpu) -> list[Plan]:
    """Compile a variant's kernels for a GPU and plan each shape; raise UsageError."""
    if variant.storage != STORAGE:
        raise UsageError(
            f"{variant.name} reads {variant.storage}, but MXNet's arrays are {STORAGE}"
        )
    parts = [variant.serve(shape, gpu) for shape in shapes]
    units = list(map(compiler.unit_of, parts, shapes))
    wanted = list(dict.fromkeys(units))
    cubins = compiler.cubins(wanted, gpu.architecture, gpu.cuda)
    made = dict(zip(wanted, cubins, strict=True))
    return [
        Plan(shape, made[unit], part)
        for shape, unit, part in zip(shapes, units, parts, strict=True)
    ]


class OperatorLibrary:
    """The loaded library; a process has one operator ``New``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.gpu: Gpu | None = None  # that was opened last
        self._c = _typed(ctypes.CDLL(str(path)))

    def use_cpu(self, threads: int) -> None:
        """Compute on the CPU with a number of threads."""
        self._c.rai_operator_use_cpu(threads)

    def open_gpu(self, libcuda: str = LIBCUDA) -> OpenGpu:
        """Open the first GPU through the driver's library; raise NoGpuError."""
        facts, cuda = (c_int * 3)(), (c_int * 2)()
        if self._c.rai_gpu_open(libcuda.encode(), facts, cuda) < 0:
            raise NoGpuError(f"cannot use a GPU: {self.problem()}")
        major, minor, count = facts
        self.gpu = gpu = OpenGpu(f"sm_{major}{minor}", count, (cuda[0], cuda[1]))
        return gpu

    def use_gpu(self, plans: Sequence[Plan]) -> None:
        """Compute convolutions of the planned shapes on the opened GPU."""
        self._checked(self._c.rai_gpu_start())
        modules = {
            cubin: self._checked(self._c.rai_gpu_load(cubin))
            for cubin in dict.fromkeys(plan.cubin for plan in plans)
        }
        for plan in plans:
            scratch = plan.part.scratch(plan.shape)
            buffers = [*BUFFERS, *scratch]
            planned = plan.part.launches(plan.shape)
            launches = [_as_c(launch, buffers) for launch in planned]
            constants = [name.encode() for name in plan.part.constants]
            answer = self._c.rai_gpu_plan(
                (c_int * 6)(*astuple(plan.shape)),
                modules[plan.cubin],
                (c_char_p * len(constants))(*constants),
                len(constants),
                (c_size_t * len(scratch))(*scratch.values()),
                len(scratch),
                (_Launch * len(launches))(*launches),
                len(launches),
            )
            self._checked(answer)

    def take_times(self) -> list[float]:
        """Return and clear the seconds that each call took."""
        seconds = (c_double * self._c.rai_operator_calls())()
        self._c.rai_operator_take_times(seconds, len(seconds))
        return list(seconds)

    def problem(self) -> str:
        """Return and clear the last error message."""
        message: bytes = self._c.rai_operator_problem()
        return message.decode(errors="replace")

    def error(self) -> ProjectError | None:
        """Return the last error message as an exception, or None."""
        if not (problem := self.problem()):
            return None
        # Errors of CUDA start with their name.
        return (GpuError if problem.startswith("CUDA_") else ProjectError)(problem)

    def _checked(self, answer: int) -> int:
        if answer < 0:
            raise self.error() or ProjectError(f"{self.path}: unknown error")
        return answer


def _as_c(launch: Launch, known: Sequence[str]) -> _Launch:
    buffers = [known.index(name) for name in launch.buffers]
    return _Launch(
        launch.kernel.encode(),
        launch.grid,
        launch.block,
        launch.shared_bytes,
        len(buffers),
        len(launch.numbers),
        tuple(buffers),
        launch.numbers,
    )


def _typed(c: ctypes.CDLL) -> ctypes.CDLL:
    """Declare the C functions of cpp/forward.h and cpp/gpu.h."""
    c.rai_operator_use_cpu.argtypes = [c_int]
    c.rai_operator_use_cpu.restype = None
    c.rai_operator_problem.argtypes = []
    c.rai_operator_problem.restype = c_char_p
    c.rai_operator_calls.argtypes = []
    c.rai_operator_take_times.argtypes = [POINTER(c_double), c_int]
    c.rai_operator_take_times.restype = None
    c.rai_gpu_open.argtypes = [c_char_p, POINTER(c_int), POINTER(c_int)]
    c.rai_gpu_start.argtypes = []
    c.rai_gpu_load.argtypes = [c_char_p]
    constants, launches = POINTER(c_char_p), POINTER(_Launch)
    sizes = [POINTER(c_int), c_int]
    arrays = [constants, c_int, POINTER(c_size_t), c_int]
    c.rai_gpu_plan.argtypes = [*sizes, *arrays, launches, c_int]
    return c
