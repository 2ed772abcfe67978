"""The convolutions on the GPU: what each is called, its idea, and how it is launched.

A variant is one file ``cuda/<name>.cu`` and one entry in ``VARIANTS``. Its plan is a
pure function of the sizes, so it is checked without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from errors import UsageError
from shapes import ConvShape

Dim = tuple[int, int, int]
Params = Mapping[str, int]

MOST_THREADS = 1024
MOST_GRID: Dim = (2**31 - 1, 65_535, 65_535)
STATIC_SHARED = 48 << 10  # bytes a block gets without asking the driver for more
CONSTANT_FLOATS = 16_384  # 64 KiB
LADDER_TARGETS = ("sm_75", "sm_80", "sm_86", "sm_90")
FP32 = "fp32"


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel over a grid of blocks; pointers come first, then whole numbers."""

    kernel: str
    grid: Dim
    block: Dim
    buffers: tuple[str, ...]
    numbers: tuple[int, ...] = ()
    shared_bytes: int = 0

    def over(self) -> str | None:
        """Say which limit of every GPU it exceeds."""
        if any(n > most for n, most in zip(self.grid, MOST_GRID, strict=True)):
            return f"a grid of {self.grid} blocks is over {MOST_GRID}"
        if self.shared_bytes > STATIC_SHARED:
            return (
                f"a block needs {self.shared_bytes} bytes of shared memory; "
                f"it gets {STATIC_SHARED}"
            )
        return None


def _all(_: ConvShape) -> None:
    """Refuse nothing."""


@dataclass(frozen=True)
class Variant:
    """A convolution in ``cuda/<name>.cu``, whose kernels are told sizes by ``-D``."""

    name: str
    idea: str
    plan: Callable[[ConvShape, Params], tuple[Launch, ...]]
    after: str | None = None
    params: Params = field(default_factory=dict)
    fixed: tuple[str, ...] = ()  # sizes of the shape that are compiled in
    constants: tuple[str, ...] = ()  # in constant memory: filled with k first
    refuses: Callable[[ConvShape], str | None] = _all
    targets: tuple[str, ...] = LADDER_TARGETS
    accuracy: str = FP32
    rtol: float = 1e-6  # ||y - reference|| / ||reference||, at 300 products a sum

    def defines(self, shape: ConvShape) -> dict[str, int]:
        """Name what its file is compiled with."""
        # A macro of one letter would break the headers that use the letter.
        sizes = {f"SHAPE_{name}": getattr(shape, name) for name in self.fixed}
        return {**self.params, **sizes}

    def launches(self, shape: ConvShape) -> tuple[Launch, ...]:
        """Plan one convolution."""
        return self.plan(shape, self.params)

    def serve(self, shape: ConvShape) -> None:
        """Raise UsageError, which says why, for a shape that it does not serve."""
        if why := self.refusal(shape):
            raise UsageError(f"{self.name} does not serve {shape}: {why}")

    def refusal(self, shape: ConvShape) -> str | None:
        """Say why it does not serve a shape; None where it does."""
        if not 1 <= shape.K <= min(shape.H, shape.W):
            return f"{shape.K} x {shape.K} weights do not fit the image"
        over = (launch.over() for launch in self.launches(shape))
        return self.refuses(shape) or next(filter(None, over), None)


def tiles(length: int, tile: int) -> int:
    """Count the tiles that cover a length."""
    return -(-length // tile)


def _a_thread_per_pixel(s: ConvShape, tile: int) -> tuple[Dim, Dim]:
    """Give each map of each image its own blocks of tile x tile pixels."""
    per_map = tiles(s.H_out, tile) * tiles(s.W_out, tile)
    return (s.M, per_map, s.B), (tile, tile, 1)


def plan_naive(s: ConvShape, p: Params) -> tuple[Launch, ...]:
    """One thread per output pixel."""
    grid, block = _a_thread_per_pixel(s, p["TILE"])
    numbers = (s.C, s.H, s.W, s.K)
    return (Launch("conv_naive", grid, block, ("y", "x", "k"), numbers),)


def plan_restrict_unroll(s: ConvShape, p: Params) -> tuple[Launch, ...]:
    """Launch as the naive kernel, which knows K by now."""
    grid, block = _a_thread_per_pixel(s, p["TILE"])
    numbers = (s.C, s.H, s.W)
    return (Launch("conv_restrict_unroll", grid, block, ("y", "x", "k"), numbers),)


def plan_tiled(s: ConvShape, p: Params) -> tuple[Launch, ...]:
    """One block per output tile of one map of one image, and room for its halo."""
    grid, block = _a_thread_per_pixel(s, p["TILE"])
    numbers = (s.C, s.H, s.W, s.K)
    shared = halo_bytes(s, p)
    return (Launch("conv_tiled", grid, block, ("y", "x", "k"), numbers, shared),)


def plan_constant(s: ConvShape, p: Params) -> tuple[Launch, ...]:
    """Launch as the tiled kernel; the weights are elsewhere."""
    grid, block = _a_thread_per_pixel(s, p["TILE"])
    numbers = (s.C, s.H, s.W, s.K)
    shared = halo_bytes(s, p)
    return (Launch("conv_constant", grid, block, ("y", "x"), numbers, shared),)


def halo_bytes(s: ConvShape, p: Params) -> int:
    """Count the bytes of an input tile with the halo that its outputs reach into."""
    side = p["TILE"] + s.K - 1
    return 4 * side * side


def too_big_for_constant(s: ConvShape) -> str | None:
    """Refuse weights that exceed constant memory."""
    if s.weights <= CONSTANT_FLOATS:
        return None
    return f"{s.weights} weights exceed the {CONSTANT_FLOATS} of constant memory"


def ladder(*variants: Variant) -> dict[str, Variant]:
    """Order variants by name, each after the one that it builds on."""
    steps: dict[str, Variant] = {}
    for variant in variants:
        if variant.name in steps or variant.after not in {None, *steps}:
            raise ValueError(f"{variant.name} is out of order")
        steps[variant.name] = variant
    return steps


VARIANTS = ladder(
    Variant(
        "naive",
        "one thread per output pixel",
        plan_naive,
        params={"TILE": 16},
    ),
    Variant(
        "restrict_unroll",
        "no aliasing, and the loops over the weights unrolled",
        plan_restrict_unroll,
        after="naive",
        params={"TILE": 16},
        fixed=("K",),
    ),
    Variant(
        "tiled",
        "a block shares its input tile",
        plan_tiled,
        after="naive",
        params={"TILE": 16},
    ),
    Variant(
        "constant",
        "weights in constant memory",
        plan_constant,
        after="tiled",
        params={"TILE": 16, "WEIGHTS": CONSTANT_FLOATS},
        constants=("weights",),
        refuses=too_big_for_constant,
    ),
)

BEST = {FP32: "restrict_unroll"}
"""The fastest variant of each class of accuracy, as measured on the largest GPU."""


def best(accuracy: str) -> Variant:
    """Give the fastest variant of a class."""
    return VARIANTS[BEST[accuracy]]


def select(names: Sequence[str]) -> list[Variant]:
    """Find variants by name; with none named, all that build on another."""
    unknown = [name for name in names if name not in VARIANTS]
    if unknown:
        known = ", ".join(VARIANTS)
        raise UsageError(f"there is no variant `{unknown[0]}`; there are {known}")
    chosen = names or [name for name, step in VARIANTS.items() if step.after]
    return [VARIANTS[name] for name in chosen]
