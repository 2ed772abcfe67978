"""plan.json: the launches of a team's entries, as `python project/plan.py` writes it.

The team wrote it, so all of it is bounded. ``read`` returns it or every problem, each
with the JSON path of what is wrong. docs/schemas/plan.json is made of these classes.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from runner.core.problem import Problem
from runner.core.shapes import Shape

_END = r"(?![\s\S])"
"""The end of a text. In Python `$` also matches before a last line feed."""

_GIB = 1 << 30

Name = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}" + _END)]
Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}" + _END)]
FilePath = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*(/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*" + _END,
        max_length=200,
        description="a relative path with slashes",
    ),
]
UnitFile = Annotated[
    str,
    Meta(
        pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.+-]*/)*[A-Za-z0-9_][A-Za-z0-9_.+-]*\.cu"
        + _END,
        max_length=200,
        description="a .cu file, relative to project/cuda",
    ),
]
Architecture = Annotated[str, Meta(pattern=r"^sm_[0-9]{2,3}" + _END)]
Target = Annotated[str, Meta(pattern=r"^sm_[0-9]{2,3}[af]?" + _END)]
MilestoneName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}" + _END)]
Word = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}" + _END)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
GridX = Annotated[int, Meta(ge=1, le=2**31 - 1)]
GridYZ = Annotated[int, Meta(ge=1, le=65_535)]
BlockXY = Annotated[int, Meta(ge=1, le=1024)]
BlockZ = Annotated[int, Meta(ge=1, le=64)]
SharedBytes = Annotated[int, Meta(ge=0, le=227 << 10)]
ScratchBytes = Annotated[int, Meta(ge=1, le=8 * _GIB)]


class PlannedUnit(Struct, frozen=True, forbid_unknown_fields=True):
    """A file below project/cuda, compiled for a target with macros."""

    file: UnitFile
    target: Target
    defines: Annotated[dict[Name, Int64], Meta(max_length=64)] = field(
        default_factory=dict
    )


class PlannedLaunch(Struct, frozen=True, forbid_unknown_fields=True):
    """One launch of a kernel; its arguments are buffers, then int32 numbers.

    A buffer is `y`, `x`, `k` or the name of a scratch array.
    """

    kernel: Name
    grid: tuple[GridX, GridYZ, GridYZ]
    block: tuple[BlockXY, BlockXY, BlockZ]
    buffers: Annotated[tuple[Name, ...], Meta(max_length=32)]
    numbers: Annotated[tuple[Int32, ...], Meta(max_length=64)] = ()
    shared_bytes: SharedBytes = 0


class PlannedConvolution(Struct, frozen=True, forbid_unknown_fields=True):
    """One layer's convolution: what is compiled, what it needs, what is launched.

    ``storage`` is the type of x and k in memory; y is always float32. ``constants``
    are the names of `__constant__` arrays that k is copied to first. ``scratch`` has
    the bytes of arrays for intermediate values.
    """

    name: Word
    shape: Shape
    storage: Literal["float32", "float16"]
    unit: PlannedUnit
    launches: Annotated[tuple[PlannedLaunch, ...], Meta(min_length=1, max_length=64)]
    constants: Annotated[tuple[Name, ...], Meta(max_length=4)] = ()
    scratch: Annotated[dict[Name, ScratchBytes], Meta(max_length=16)] = field(
        default_factory=dict
    )


class ArchitecturePlan(Struct, frozen=True, forbid_unknown_fields=True):
    """The convolutions of an entry, for some architectures of GPUs."""

    architectures: Annotated[
        tuple[Architecture, ...], Meta(min_length=1, max_length=32)
    ]
    convolutions: Annotated[
        tuple[PlannedConvolution, ...], Meta(min_length=1, max_length=16)
    ]


class PlannedEntry(
    Struct, frozen=True, forbid_unknown_fields=True, rename={"accuracy": "class"}
):
    """What is measured as one: a variant's convolutions, of one accuracy class."""

    variant: Word
    accuracy: Literal["fp32", "tf32", "half"]
    plans: Annotated[tuple[ArchitecturePlan, ...], Meta(min_length=1, max_length=32)]

    def serving(self, architecture: str) -> ArchitecturePlan | None:
        """Return the plan for an architecture; None if it has none."""
        return next((p for p in self.plans if architecture in p.architectures), None)

    @property
    def architectures(self) -> tuple[str, ...]:
        """All architectures that it has a plan for."""
        return tuple(name for plan in self.plans for name in plan.architectures)


class SubmissionPlan(Struct, frozen=True, forbid_unknown_fields=True):
    """A whole plan.json.

    ``sources`` has the SHA-256 of each file that a unit reads, by its path in the
    project. ``registry`` is the digest (``core.digests.of_set``) of the files
    ``registry_files``, which the launches were made of.
    """

    version: Literal[1]
    edition: Word
    registry: Sha256
    registry_files: Annotated[tuple[FilePath, ...], Meta(min_length=1, max_length=200)]
    sources: Annotated[dict[FilePath, Sha256], Meta(max_length=2000)]
    milestones: Annotated[
        dict[
            MilestoneName,
            Annotated[tuple[PlannedEntry, ...], Meta(max_length=16)],
        ],
        Meta(max_length=16),
    ]


def read(data: bytes) -> tuple[SubmissionPlan | None, tuple[Problem, ...]]:
    """Return the plan, or None and every problem with its JSON path."""
    raise NotImplementedError
