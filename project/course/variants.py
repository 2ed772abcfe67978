"""A variant of the convolution on the GPU: its file, launches and limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass, field, replace

from course.errors import UsageError
from course.shapes import ConvShape

Dim = tuple[int, int, int]
Params = Mapping[str, int]

MOST_THREADS = 1024
MOST_GRID: Dim = (2**31 - 1, 65_535, 65_535)
MOST_CONSTANT = 16_384  # floats of constant memory, 64 KiB
STATIC_SHARED = 48 << 10  # bytes of shared memory without an opt-in
SHARED = {
    "sm_70": 96 << 10,
    "sm_75": 64 << 10,
    "sm_80": 163 << 10,
    "sm_86": 99 << 10,
    "sm_87": 163 << 10,
    "sm_89": 99 << 10,
    "sm_90": 227 << 10,
    "sm_100": 227 << 10,
    "sm_103": 227 << 10,
    "sm_120": 99 << 10,
}
"""The most bytes of shared memory of a block (CUDA C++ Programming Guide)."""

MULTIPROCESSORS = {
    "sm_75": 40,  # T4
    "sm_80": 108,  # A100
    "sm_86": 82,  # RTX 3090
    "sm_89": 128,  # RTX 4090
    "sm_90": 132,  # H100, H200
    "sm_100": 148,  # B200
    "sm_120": 170,  # RTX 5090
}
"""Of a usual GPU of an architecture, for plans that are made without a GPU."""

LADDER_TARGETS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
FP32, TF32, HALF = "fp32", "tf32", "half"
RTOL = {FP32: 1e-6, TF32: 5e-4, HALF: 1e-3}
"""The tolerance of each accuracy class: ||y - reference|| / ||reference||."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """What plans depend on of a GPU."""

    architecture: str  # such as sm_90
    multiprocessors: int

    @property
    def shared_bytes(self) -> int:
        """Return the most bytes of shared memory of a block."""
        return SHARED.get(self.architecture, SHARED["sm_86"])


def usual(architecture: str) -> Gpu:
    """Return a usual GPU of an architecture."""
    count = MULTIPROCESSORS.get(architecture, MULTIPROCESSORS["sm_90"])
    return Gpu(architecture, count)


H200 = usual("sm_90")  # the default, which the fastest kernels are tuned for


@dataclass(frozen=True, slots=True)
class OnGpu(ConvShape):
    """A shape, and the GPU that computes it."""

    gpu: Gpu


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch of a kernel; its arguments are buffers, then ints.

    The grid of a persistent kernel has a block for each unit of work; at most
    ``resident`` for each multiprocessor are launched, a multiple of ``together``.
    """

    kernel: str
    grid: Dim
    block: Dim
    buffers: tuple[str, ...]
    numbers: tuple[int, ...] = ()
    shared_bytes: int = 0
    resident: int = 0  # no limit
    together: int = 1

    def on(self, gpu: Gpu) -> Launch:
        """Return the launch with the grid for a GPU."""
        if not self.resident:
            return self
        groups = max(1, self.resident * gpu.multiprocessors // self.together)
        grid = min(self.grid[0], self.together * groups), *self.grid[1:]
        return replace(self, grid=grid, resident=0, together=1)

    def over(self, gpu: Gpu = H200) -> str | None:
        """Return which limit of a GPU it exceeds; None if it exceeds none."""
        if any(n > most for n, most in zip(self.grid, MOST_GRID, strict=True)):
            return f"a grid of {self.grid} blocks exceeds {MOST_GRID}"
        if self.shared_bytes > gpu.shared_bytes:
            return (
                f"a block needs {self.shared_bytes} bytes of shared memory; "
                f"the limit is {gpu.shared_bytes}"
            )
        return None


def _all(_: ConvShape) -> None:
    """Refuse nothing."""


def _nothing(_: ConvShape) -> Mapping[str, int]:
    """Need nothing."""
    return {}


@dataclass(frozen=True)
class Variant:
    """A convolution in ``<file>.cu`` below cuda/, whose sizes are macros (``-D``)."""

    name: str
    idea: str
    plan: Callable[[OnGpu, Params], Iterable[Launch]]
    after: str | None = None
    params: Params = field(default_factory=dict)
    tune: Callable[[OnGpu], Params] = _nothing  # parameters that depend on the shape
    fixed: tuple[str, ...] = ()  # sizes of the shape that are compiled in
    constants: tuple[str, ...] = ()  # constant memory that k is copied to first
    # Bytes of each scratch array, besides y, x, and k.
    scratch: Callable[[ConvShape], Mapping[str, int]] = _nothing
    refuses: Callable[[OnGpu], str | None] = _all
    targets: tuple[str, ...] = LADDER_TARGETS
    accuracy: str = FP32  # its class, for sums of 300 products
    elementwise: bool = True  # whether fp32 also bounds the error of each element
    file: str = ""  # if its name differs from the variant's
    choices: tuple[Variant, ...] = ()  # alternatives: the first that supports a shape
    gpu: Gpu = H200  # that it is planned for

    @property
    def rtol(self) -> float:
        """Return its tolerance, ||y - reference|| / ||reference||."""
        return RTOL[self.accuracy]

    @property
    def storage(self) -> str:
        """Return the type of x and k in memory; y is always float32."""
        return "float16" if self.accuracy == HALF else "float32"

    @property
    def stem(self) -> str:
        """Return its file's name, without ``.cu``."""
        return self.file or self.name

    def parameters(self, shape: ConvShape) -> dict[str, int]:
        """Return its parameters for a shape."""
        return {**self.params, **self.tune(self._on_gpu(shape))}

    def defines(self, shape: ConvShape) -> dict[str, int]:
        """Return the macros that its file is compiled with."""
        # One-letter macros would break headers that use the letter.
        sizes = {f"SHAPE_{name}": getattr(shape, name) for name in self.fixed}
        return {**self.parameters(shape), **sizes}

    def launches(self, shape: ConvShape) -> tuple[Launch, ...]:
        """Return the launches of one convolution."""
        return tuple(launch.on(self.gpu) for launch in self.planned(shape))

    def planned(self, shape: ConvShape) -> tuple[Launch, ...]:
        """Return the launches for any number of multiprocessors."""
        return tuple(self.plan(self._on_gpu(shape), self.parameters(shape)))

    def _on_gpu(self, shape: ConvShape) -> OnGpu:
        return OnGpu(*astuple(shape), self.gpu)

    @property
    def parts(self) -> tuple[Variant, ...]:
        """Return itself, or all its choices, recursively."""
        if not self.choices:
            return (self,)
        return tuple(part for choice in self.choices for part in choice.parts)

    def of(self, shape: ConvShape, gpu: Gpu = H200) -> Variant:
        """Return the first choice that supports a shape, recursively, or itself.

        It is planned for the GPU.
        """
        serving = (v for v in self.choices if not v.refusal(shape, gpu))
        first = next(serving, None)
        return first.of(shape, gpu) if first else replace(self, gpu=gpu)

    def serve(self, shape: ConvShape, gpu: Gpu = H200) -> Variant:
        """Return the choice that computes a shape; raise UsageError if none does."""
        if why := self.refusal(shape, gpu):
            raise UsageError(f"{self.name} does not support {shape}: {why}")
        return self.of(shape, gpu)

    def refusal(self, shape: ConvShape, gpu: Gpu = H200) -> str | None:
        """Return why it does not support a shape; None if it does."""
        if not 1 <= shape.K <= min(shape.H, shape.W):
            return f"{shape.K} x {shape.K} weights are larger than the image"
        if self.choices:
            reasons = [choice.refusal(shape, gpu) for choice in self.choices]
            return reasons[-1] if all(reasons) else None
        if self.target(gpu.architecture) is None:
            needs = min(self.targets, key=number)
            only = needs.endswith("a")
            wanted = f"exactly {needs[:-1]}" if only else f"{needs} or newer"
            return f"it needs {wanted}; this GPU is {gpu.architecture}"
        here = replace(self, gpu=gpu)
        if why := self.refuses(here._on_gpu(shape)):
            return why
        over = (launch.over(gpu) for launch in here.launches(shape))
        return next(filter(None, over), None)

    def target(self, architecture: str) -> str | None:
        """Return the target to compile for a GPU; None if it cannot run there."""
        if (own := f"{architecture}a") in self.targets:
            return own
        any_later = [number(t) for t in self.targets if not t.endswith("a")]
        serves = any_later and number(architecture) >= min(any_later)
        # Variants for the whole ladder run on Volta too, if the toolkit supports it.
        volta = self.targets == LADDER_TARGETS and architecture == "sm_70"
        return architecture if serves or volta else None


def left_out(s: ConvShape) -> Mapping[str, int]:
    """Return the bytes of the list of images that a kernel leaves to ``repair.cuh``."""
    return {"list": 4 * s.B}


def repair(kernel: str, s: ConvShape) -> Launch:
    """Launch the kernel that computes the images in the list, a map at a time."""
    grid, buffers = (s.B * s.M, 1, 1), ("y", "x", "k", "list")
    return Launch(kernel, grid, (256, 1, 1), buffers, resident=2)


def number(architecture: str) -> int:
    """Return the number of an architecture such as sm_90."""
    return int(architecture.removeprefix("sm_").removesuffix("a"))


def first_of(name: str, idea: str, after: str, *choices: Variant) -> Variant:
    """Return a variant that chooses among others, which are ordered best first."""
    first = choices[0]
    targets = tuple(dict.fromkeys(t for c in choices for t in c.targets))
    return Variant(
        *(name, idea, first.plan, after),
        targets=targets,
        accuracy=first.accuracy,
        choices=choices,
    )


def tiles(length: int, tile: int) -> int:
    """Return the number of tiles that cover a length."""
    return -(-length // tile)


def ladder(*variants: Variant) -> dict[str, Variant]:
    """Return variants by name; raise ValueError unless each follows its ``after``."""
    steps: dict[str, Variant] = {}
    for variant in variants:
        if variant.name in steps or variant.after not in {None, *steps}:
            raise ValueError(f"{variant.name}: duplicate, or before `{variant.after}`")
        steps[variant.name] = variant
    return steps
