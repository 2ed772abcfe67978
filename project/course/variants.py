"""A variant of the convolution on the GPU: its file, launches and limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

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
}
"""The most bytes of shared memory of a block (CUDA C++ Programming Guide)."""

MULTIPROCESSORS = 132  # of an H200, which the fastest kernels are tuned for
NEWEST = "sm_90"  # the default architecture, for its limits
LADDER_TARGETS = ("sm_75", "sm_80", "sm_86", "sm_90")
FP32, TF32, HALF = "fp32", "tf32", "half"
RTOL = {FP32: 1e-6, TF32: 5e-4, HALF: 1e-3}
"""The tolerance of each accuracy class: ||y - reference|| / ||reference||."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch of a kernel; its arguments are buffers, then ints."""

    kernel: str
    grid: Dim
    block: Dim
    buffers: tuple[str, ...]
    numbers: tuple[int, ...] = ()
    shared_bytes: int = 0

    def over(self, architecture: str = NEWEST) -> str | None:
        """Return which limit of a GPU it exceeds; None if it exceeds none."""
        if any(n > most for n, most in zip(self.grid, MOST_GRID, strict=True)):
            return f"a grid of {self.grid} blocks exceeds {MOST_GRID}"
        room = most_shared(architecture)
        if self.shared_bytes > room:
            return (
                f"a block needs {self.shared_bytes} bytes of shared memory; "
                f"the limit is {room}"
            )
        return None


def most_shared(architecture: str) -> int:
    """Return the most bytes of shared memory of a block."""
    return SHARED.get(architecture, min(SHARED["sm_86"], SHARED[NEWEST]))


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
    plan: Callable[[ConvShape, Params], tuple[Launch, ...]]
    after: str | None = None
    params: Params = field(default_factory=dict)
    sweep: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # values to try
    tune: Callable[[ConvShape], Params] = (
        _nothing  # parameters that depend on the shape
    )
    fixed: tuple[str, ...] = ()  # sizes of the shape that are compiled in
    constants: tuple[str, ...] = ()  # constant memory that k is copied to first
    # Bytes of each scratch array, besides y, x, and k.
    scratch: Callable[[ConvShape], Mapping[str, int]] = _nothing
    refuses: Callable[[ConvShape], str | None] = _all
    targets: tuple[str, ...] = LADDER_TARGETS
    accuracy: str = FP32  # its class, for sums of 300 products
    elementwise: bool = True  # whether fp32 also bounds the error of each element
    file: str = ""  # if its name differs from the variant's
    choices: tuple[Variant, ...] = ()  # alternatives: the first that supports a shape

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
        return {**self.params, **self.tune(shape)}

    def defines(self, shape: ConvShape) -> dict[str, int]:
        """Return the macros that its file is compiled with."""
        # One-letter macros would break headers that use the letter.
        sizes = {f"SHAPE_{name}": getattr(shape, name) for name in self.fixed}
        return {**self.parameters(shape), **sizes}

    def launches(self, shape: ConvShape) -> tuple[Launch, ...]:
        """Return the launches of one convolution."""
        return self.plan(shape, self.parameters(shape))

    @property
    def parts(self) -> tuple[Variant, ...]:
        """Return itself, or all its choices, recursively."""
        if not self.choices:
            return (self,)
        return tuple(part for choice in self.choices for part in choice.parts)

    def of(self, shape: ConvShape, architecture: str = NEWEST) -> Variant:
        """Return the first choice that supports a shape, recursively, or itself."""
        serving = (v for v in self.choices if not v.refusal(shape, architecture))
        first = next(serving, self)
        return first if first is self else first.of(shape, architecture)

    def serve(self, shape: ConvShape, architecture: str = NEWEST) -> Variant:
        """Return the choice that computes a shape; raise UsageError if none does."""
        if why := self.refusal(shape, architecture):
            raise UsageError(f"{self.name} does not support {shape}: {why}")
        return self.of(shape, architecture)

    def refusal(self, shape: ConvShape, architecture: str = NEWEST) -> str | None:
        """Return why it does not support a shape; None if it does."""
        if not 1 <= shape.K <= min(shape.H, shape.W):
            return f"{shape.K} x {shape.K} weights are larger than the image"
        if self.choices:
            reasons = [choice.refusal(shape, architecture) for choice in self.choices]
            return reasons[-1] if all(reasons) else None
        if self.target(architecture) is None:
            needs = min(self.targets, key=number)
            only = needs.endswith("a")
            wanted = f"exactly {needs[:-1]}" if only else f"{needs} or newer"
            return f"it needs {wanted}; this GPU is {architecture}"
        if why := self.refuses(shape):
            return why
        over = (launch.over(architecture) for launch in self.launches(shape))
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

    def having(self, **params: int) -> Variant:
        """Return a copy with other parameters."""
        return replace(self, params={**self.params, **params})


def left_out(s: ConvShape, parts: int = 1) -> Mapping[str, int]:
    """Return the bytes of the list of images that a kernel leaves to ``repair.cuh``.

    Each of ``parts`` blocks may add an image.
    """
    return {"list": 4 * s.B * parts}


def repair(kernel: str) -> Launch:
    """Launch the kernel that computes the images in the list."""
    buffers = ("y", "x", "k", "list")
    return Launch(kernel, (2 * MULTIPROCESSORS, 1, 1), (256, 1, 1), buffers)


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
