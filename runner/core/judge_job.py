"""job.json: what the judge compiles and measures, of values that are checked."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, json

from runner.core.plan import PlannedLaunch, PlannedUnit
from runner.core.shapes import LayerShape, Shape

FILE = "job.json"


class JudgedConvolution(Struct, frozen=True):
    """One layer of an entry; ``unit`` is an index into the job's units."""

    name: str
    shape: Shape
    storage: str
    unit: int
    constants: tuple[str, ...]
    scratch: Mapping[str, int]
    launches: tuple[PlannedLaunch, ...]


class JudgedEntry(Struct, frozen=True):
    """What is measured as one."""

    variant: str
    convolutions: tuple[JudgedConvolution, ...]


class ReferenceTime(Struct, frozen=True):
    """The site's time of the reference kernel on the GPU in use."""

    gpu: str
    ms: float
    band: float


class JudgeJob(Struct, frozen=True, rename={"accuracy": "class"}):
    """The whole of job.json; ``architecture`` is "" where no GPU is used.

    ``layers`` are the milestone's own shapes, ``rules`` fields of the judge's Rules.
    """

    milestone: str
    accuracy: str
    architecture: str
    units: tuple[PlannedUnit, ...] = ()
    entries: tuple[JudgedEntry, ...] = ()
    layers: tuple[LayerShape, ...] = ()
    rules: Mapping[str, float] = {}
    reference: ReferenceTime | None = None
    version: int = 1


def to_json(job: JudgeJob) -> bytes:
    """Return the job as JSON."""
    return json.encode(job)
