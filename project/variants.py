"""What a convolution on the GPU is: its file, how it is launched, what it serves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from errors import UsageError
from shapes import ConvShape

Dim = tuple[int, int, int]
Params = Mapping[str, int]

MOST_THREADS = 1024
MOST_GRID: Dim = (2**31 - 1, 65_535, 65_535)
MOST_CONSTANT = 16_384  # floats: 64 KiB
STATIC_SHARED = 48 << 10  # bytes a block gets without asking the driver for more
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
"""Bytes a block may ask for (CUDA C++ Programming Guide, compute capabilities)."""

MULTIPROCESSORS = 132  # of the GPU that the fastest kernels are tuned for, an H200
NEWEST = "sm_90"  # whose limits count where no GPU is named
LADDER_TARGETS = ("sm_75", "sm_80", "sm_86", "sm_90")
FP32, TF32, HALF = "fp32", "tf32", "half"
RTOL = {FP32: 1e-6, TF32: 5e-4, HALF: 1e-3}
"""||y - reference|| / ||reference|| that each class of accuracy keeps to."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel over a grid of blocks; pointers come first, then whole numbers."""

    kernel: str
    grid: Dim
    block: Dim
    buffers: tuple[str, ...]
    numbers: tuple[int, ...] = ()
    shared_bytes: int = 0

    def over(self, architecture: str = NEWEST) -> str | None:
        """Say which limit of a GPU it exceeds."""
        if any(n > most for n, most in zip(self.grid, MOST_GRID, strict=True)):
            return f"a grid of {self.grid} blocks is over {MOST_GRID}"
        room = most_shared(architecture)
        if self.shared_bytes > room:
            return (
                f"a block needs {self.shared_bytes} bytes of shared memory; "
                f"it gets {room}"
            )
        return None


def most_shared(architecture: str) -> int:
    """Count the bytes of shared memory that a block may ask for."""
    return SHARED.get(architecture, min(SHARED["sm_86"], SHARED[NEWEST]))


def _all(_: ConvShape) -> None:
    """Refuse nothing."""


def _nothing(_: ConvShape) -> Mapping[str, int]:
    """Need nothing."""
    return {}


@dataclass(frozen=True)
class Variant:
    """A convolution in ``cuda/<file>.cu``, whose kernels are told sizes by ``-D``."""

    name: str
    idea: str
    plan: Callable[[ConvShape, Params], tuple[Launch, ...]]
    after: str | None = None
    params: Params = field(default_factory=dict)
    sweep: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # worth a try
    tune: Callable[[ConvShape], Params] = _nothing  # parameters by the shape
    fixed: tuple[str, ...] = ()  # sizes of the shape that are compiled in
    constants: tuple[str, ...] = ()  # in constant memory: filled with k first
    # Bytes of each array that launches name beside y, x, and k.
    scratch: Callable[[ConvShape], Mapping[str, int]] = _nothing
    refuses: Callable[[ConvShape], str | None] = _all
    targets: tuple[str, ...] = LADDER_TARGETS
    accuracy: str = FP32  # its class; at 300 products a sum
    file: str = ""  # where it is not called as the variant
    choices: tuple[Variant, ...] = ()  # the first that serves a shape stands for it

    @property
    def rtol(self) -> float:
        """Bound its error, ||y - reference|| / ||reference||."""
        return RTOL[self.accuracy]

    @property
    def storage(self) -> str:
        """Name the type of x and k in memory; y is float32 always."""
        return "float16" if self.accuracy == HALF else "float32"

    @property
    def stem(self) -> str:
        """Name its file, without ``.cu``."""
        return self.file or self.name

    def told(self, shape: ConvShape) -> dict[str, int]:
        """Give its parameters for a shape."""
        return {**self.params, **self.tune(shape)}

    def defines(self, shape: ConvShape) -> dict[str, int]:
        """Name what its file is compiled with."""
        # A macro of one letter would break the headers that use the letter.
        sizes = {f"SHAPE_{name}": getattr(shape, name) for name in self.fixed}
        return {**self.told(shape), **sizes}

    def launches(self, shape: ConvShape) -> tuple[Launch, ...]:
        """Plan one convolution."""
        return self.plan(shape, self.told(shape))

    @property
    def parts(self) -> tuple[Variant, ...]:
        """Give all that may compute for it: itself, or its choices and theirs."""
        if not self.choices:
            return (self,)
        return tuple(part for choice in self.choices for part in choice.parts)

    def of(self, shape: ConvShape, architecture: str = NEWEST) -> Variant:
        """Give the one of its choices that computes a shape: itself, or the first."""
        serving = (v for v in self.choices if not v.refusal(shape, architecture))
        first = next(serving, self)
        return first if first is self else first.of(shape, architecture)

    def serve(self, shape: ConvShape, architecture: str = NEWEST) -> Variant:
        """Give what computes a shape; raise UsageError, which says why, for none."""
        if why := self.refusal(shape, architecture):
            raise UsageError(f"{self.name} does not serve {shape}: {why}")
        return self.of(shape, architecture)

    def refusal(self, shape: ConvShape, architecture: str = NEWEST) -> str | None:
        """Say why it does not serve a shape; None where it does."""
        if not 1 <= shape.K <= min(shape.H, shape.W):
            return f"{shape.K} x {shape.K} weights do not fit the image"
        if self.choices:
            said = [choice.refusal(shape, architecture) for choice in self.choices]
            return said[-1] if all(said) else None
        if self.target(architecture) is None:
            needs = min(self.targets, key=number)
            only = needs.endswith("a")
            wanted = f"{needs[:-1]} alone" if only else f"{needs} or newer"
            return f"it needs {wanted}, and this GPU is {architecture}"
        if why := self.refuses(shape):
            return why
        over = (launch.over(architecture) for launch in self.launches(shape))
        return next(filter(None, over), None)

    def target(self, architecture: str) -> str | None:
        """Name what to compile for a GPU; None where it cannot run there."""
        if (own := f"{architecture}a") in self.targets:
            return own
        any_later = [number(t) for t in self.targets if not t.endswith("a")]
        serves = any_later and number(architecture) >= min(any_later)
        # Volta is served where the whole ladder is: what compiles may run there.
        volta = self.targets == LADDER_TARGETS and architecture == "sm_70"
        return architecture if serves or volta else None

    def having(self, **params: int) -> Variant:
        """Give the same with other parameters."""
        return replace(self, params={**self.params, **params})


def number(architecture: str) -> int:
    """Read the compute capability, tenfold, of a name such as sm_90."""
    return int(architecture.removeprefix("sm_").removesuffix("a"))


def first_of(name: str, idea: str, after: str, *choices: Variant) -> Variant:
    """Make a variant of those that serve some shapes or GPUs each, the best first."""
    first = choices[0]
    targets = tuple(dict.fromkeys(t for c in choices for t in c.targets))
    return Variant(
        *(name, idea, first.plan, after),
        targets=targets,
        accuracy=first.accuracy,
        choices=choices,
    )


def tiles(length: int, tile: int) -> int:
    """Count the tiles that cover a length."""
    return -(-length // tile)


def ladder(*variants: Variant) -> dict[str, Variant]:
    """Order variants by name, each after the one that it builds on."""
    steps: dict[str, Variant] = {}
    for variant in variants:
        if variant.name in steps or variant.after not in {None, *steps}:
            raise ValueError(f"{variant.name} is out of order")
        steps[variant.name] = variant
    return steps
