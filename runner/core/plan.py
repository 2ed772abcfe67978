"""plan.json: the launches of a team's entries."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from runner.core.milestone import Shape

_END = r"(?![\s\S])"
"""The end of a text. In Python `$` also matches before a last line feed."""

_GIB = 1 << 30

_FILE = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"


def _text(pattern: str, words: str) -> Meta:
    return Meta(pattern=f"^{pattern}{_END}", max_length=200, description=words)


def _whole(least: int, most: int) -> Meta:
    words = f"a whole number from {least} to {most}"
    return Meta(ge=least, le=most, description=words)


Name = Annotated[
    str,
    _text("[A-Za-z_][A-Za-z0-9_]{0,127}", "a name of letters, digits and _"),
]
Word = Annotated[
    str,
    _text("[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", "a word of letters, digits, _, - and ."),
]
MilestoneName = Word
Sha256 = Annotated[str, _text("[0-9a-f]{64}", "64 hexadecimal digits")]
FilePath = Annotated[
    str, _text(f"{_FILE}(/{_FILE})*", "a path in the project, with slashes")
]
UnitFile = Annotated[
    str,
    _text(rf"({_FILE}/)*{_FILE}\.cu", "a .cu file, by its path below the sources"),
]
Architecture = Annotated[str, _text("sm_[0-9]{2,3}", "an architecture such as sm_90")]
Target = Annotated[str, _text("sm_[0-9]{2,3}[af]?", "a target such as sm_90 or sm_90a")]
Int32 = Annotated[int, _whole(-(2**31), 2**31 - 1)]
Int64 = Annotated[int, _whole(-(2**63), 2**63 - 1)]
Arithmetic = Annotated[str, Meta(max_length=100, description="arithmetic on sizes")]
"""Its value is a number within the same bounds (``judge.arithmetic``)."""

Argument = Int32 | Arithmetic
GridX = Annotated[int, _whole(1, 2**31 - 1)] | Arithmetic
GridYZ = Annotated[int, _whole(1, 65_535)] | Arithmetic
BlockXY = Annotated[int, _whole(1, 1024)] | Arithmetic
BlockZ = Annotated[int, _whole(1, 64)] | Arithmetic
SharedBytes = Annotated[int, _whole(0, 227 << 10)] | Arithmetic
ScratchBytes = Annotated[int, _whole(1, 8 * _GIB)] | Arithmetic
Comment = str | tuple[str, ...]
"""For people; rai does not look at it."""


class PlannedUnit(Struct, frozen=True, forbid_unknown_fields=True):
    """A file below project/cuda or, without that folder, the project.

    It is compiled with macros for a target; without one for the GPU's architecture.
    """

    file: UnitFile
    target: Target | None = None
    defines: Annotated[dict[Name, Int64], Meta(max_length=64)] = field(
        default_factory=dict
    )


class PlannedLaunch(Struct, frozen=True, forbid_unknown_fields=True):
    """One launch of a kernel; its arguments are buffers, then int32 numbers.

    A buffer is `y`, `x`, `k` or the name of a scratch array. A number may be arithmetic
    on B, M, C, H, W, K, H_out, W_out and the unit's macros, which come first; in a grid
    also on MULTIPROCESSORS, the number of the GPU's, which the judge knows.
    """

    kernel: Name
    grid: tuple[GridX, GridYZ, GridYZ]
    block: tuple[BlockXY, BlockXY, BlockZ]
    buffers: Annotated[tuple[Name, ...], Meta(max_length=32)]
    numbers: Annotated[tuple[Argument, ...], Meta(max_length=64)] = ()
    shared_bytes: SharedBytes = 0


class PlannedConvolution(
    Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One layer's convolution: what is compiled, what it needs, what is launched.

    Without ``name`` it is every layer's, and without ``shape`` of the layer's shape.
    ``storage`` is the type of x and k in memory; y is always float32. ``constants`` are
    the names of `__constant__` arrays that k is copied to first. ``scratch`` has the
    bytes of arrays for intermediate values.
    """

    unit: PlannedUnit
    launches: Annotated[tuple[PlannedLaunch, ...], Meta(min_length=1, max_length=64)]
    name: Word = ""
    shape: Shape | None = None
    storage: Literal["float32", "float16"] = "float32"
    constants: Annotated[tuple[Name, ...], Meta(max_length=4)] = ()
    scratch: Annotated[dict[Name, ScratchBytes], Meta(max_length=16)] = field(
        default_factory=dict
    )
    comment: Comment = ""


Convolutions = Annotated[
    tuple[PlannedConvolution, ...], Meta(min_length=1, max_length=16)
]


class ArchitecturePlan(Struct, frozen=True, forbid_unknown_fields=True):
    """The convolutions of an entry, for some architectures of GPUs."""

    architectures: Annotated[
        tuple[Architecture, ...], Meta(min_length=1, max_length=32)
    ]
    convolutions: Convolutions


class PlannedEntry(
    Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename={"accuracy": "class"},
):
    """What is measured as one: a variant's convolutions, of one accuracy class.

    They are those of ``plans``, or ``convolutions`` on every architecture.
    """

    variant: Word
    accuracy: Literal["fp32", "tf32", "half"]
    plans: Annotated[
        tuple[ArchitecturePlan, ...], Meta(min_length=1, max_length=32)
    ] = ()
    convolutions: Convolutions = ()
    comment: Comment = ""

    def serving(self, architecture: str) -> tuple[PlannedConvolution, ...]:
        """Return the convolutions for an architecture; none if it has none."""
        found = (p.convolutions for p in self.plans if architecture in p.architectures)
        return next(found, self.convolutions)

    @property
    def architectures(self) -> tuple[str, ...]:
        """All architectures that it has a plan for."""
        return tuple(name for plan in self.plans for name in plan.architectures)


class SubmissionPlan(
    Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A whole plan.json.

    ``sources`` has the SHA-256 of each file that a unit reads, by its path in the
    project; without it they are all of the team's files. ``registry`` is the digest
    (``core.digests.of_set``) of the files ``registry_files``, which the launches were
    made of; a plan written by hand has none.
    """

    version: Literal[1]
    milestones: Annotated[
        dict[
            MilestoneName,
            Annotated[tuple[PlannedEntry, ...], Meta(max_length=16)],
        ],
        Meta(max_length=16),
    ]
    edition: Word = ""
    registry: Sha256 = ""
    registry_files: Annotated[
        tuple[FilePath, ...], Meta(min_length=1, max_length=200)
    ] = ()
    sources: Annotated[dict[FilePath, Sha256], Meta(max_length=2000)] | None = None
    comment: Comment = ""
