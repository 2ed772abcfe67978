"""job.json, which the judge is given, and ``measurement.json``, which it answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, json
from msgspec.structs import replace

from runner.core import screen
from runner.core.errors import RaiError
from runner.core.milestone import LayerShape, Reference, Shape
from runner.core.plan import (
    Architecture,
    MilestoneName,
    PlannedLaunch,
    PlannedUnit,
    Sha256,
    Word,
)
from runner.core.quantities import MIB

FILE = "job.json"


class JudgedConvolution(Struct, frozen=True, omit_defaults=True):
    """One layer of an entry; ``unit`` is an index into the job's units.

    The arithmetic of a grid is on ``names`` and the GPU's multiprocessors.
    """

    name: str
    shape: Shape
    storage: str
    unit: int
    constants: tuple[str, ...]
    scratch: Mapping[str, int]
    launches: tuple[PlannedLaunch, ...]
    names: Mapping[str, int] = {}


class JudgedEntry(Struct, frozen=True):
    """What is measured as one."""

    variant: str
    convolutions: tuple[JudgedConvolution, ...]


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
    reference: Reference | None = None
    """The site's time of the reference kernel on the GPU in use."""

    version: int = 1


def job_json(job: JudgeJob) -> bytes:
    """Return the job as JSON."""
    return json.encode(job)


MEASUREMENT_FILE = "measurement.json"
MEASUREMENT_BYTES = 4 * MIB
"""What a measurement may have; 40 rounds of three entries have 50 kB."""

WIDE = 0.03
"""An interval that is wider than this share of its ratio is odd."""

Text = Annotated[str, Meta(max_length=200)]
Sentence = Annotated[str, Meta(max_length=1000)]
Sentences = Annotated[tuple[Sentence, ...], Meta(max_length=64)]
Milliseconds = Annotated[float, Meta(ge=0, le=1e9)]
Megahertz = Annotated[float, Meta(ge=0, le=1e6)]
Seconds = Annotated[float, Meta(ge=0, le=1e6)]
Ratio = Annotated[float, Meta(ge=0, le=1e9)]
Celsius = Annotated[float, Meta(ge=-300, le=1000)]
Watts = Annotated[float, Meta(ge=0, le=1e6)]
Share = Annotated[float, Meta(ge=0)]
Number = Annotated[int, Meta(ge=0, le=2**53)]
Index = Annotated[int, Meta(ge=-(2**31), le=2**53)]


class MeasuredGpu(Struct, frozen=True):
    """The GPU that was measured on; what the driver did not tell is empty or null."""

    name: Text
    uuid: Text = ""
    driver: Text = ""
    memory_bytes: Number = 0
    multiprocessors: Number = 0
    sm_mhz_max: Megahertz | None = None


class MeasuredRates(Struct, frozen=True):
    """What the GPU was seen to do in the same run; a rate of 0 was not measured."""

    copied_bytes_per_s: Share
    products_per_s: Share = 0.0
    l2_bytes: Number = 0


class CheckedValues(Struct, frozen=True):
    """How many calls were checked, and how many numbers of theirs: all of them."""

    calls: Number
    values: Number


class WrongValue(Struct, frozen=True):
    """The first number that is not as expected.

    ``what`` is y for a wrong result, or what was changed that must not be: x, k, or
    outside (memory around the buffers); norm for a y whose error as a whole, ``found``,
    is above ``expected``; late for a y that was still written after the call was said
    to be over. ``inputs`` is the kind of inputs of the call.
    """

    call: Index
    layer: Word
    image: Index
    map: Index
    row: Index
    column: Index
    found: float | Literal["nan", "inf", "-inf"]
    expected: float | Literal["nan", "inf", "-inf"]
    what: Literal["y", "x", "k", "outside", "norm", "late"] = "y"
    inputs: Text = ""


class MeasuredLayer(Struct, frozen=True):
    """The medians of one layer's samples; clocks as minimum, median and maximum.

    ``sm_mhz`` is of calls beside the samples, as the player says it.
    """

    name: Word
    ms: Milliseconds
    reference_ms: Milliseconds
    sm_mhz: tuple[Megahertz, Megahertz, Megahertz]
    reference_mhz: tuple[Megahertz, Megahertz, Megahertz]
    floor_ms: Milliseconds | None = None
    error: Share | None = None


class MeasuredSample(Struct, frozen=True):
    """One timed call of one layer, and the reference beside it.

    ``ms`` is by the judge's own clock, from its word to start until the GPU says that
    all is done. A clock of 0 is unknown.
    """

    layer: Word
    round: Number
    ms: Milliseconds
    reference_ms: Milliseconds
    reference_mhz: Megahertz


class MeasuredEntry(Struct, frozen=True):
    """One measured variant of a submission.

    ``ratio`` is its time divided by the reference's, ``interval`` its 95 % interval,
    ``score_ms`` the ratio times the site's time of the reference, if there is one.
    ``why`` says why it is not accepted, ``fault`` how its kernels failed.
    """

    variant: Word
    accepted: bool
    why: Sentences
    correct: bool
    checked: CheckedValues
    wrong: WrongValue | None = None
    fault: Sentence = ""
    ms: Milliseconds | None = None
    ratio: Ratio | None = None
    interval: tuple[Ratio, Ratio] | None = None
    score_ms: Milliseconds | None = None
    error: Share | None = None
    layers: Annotated[tuple[MeasuredLayer, ...], Meta(max_length=16)] = ()
    samples: Annotated[tuple[MeasuredSample, ...], Meta(max_length=20_000)] = ()


class MeasurementHost(Struct, frozen=True):
    """What rai adds to a measurement: where it comes from and what it counts for.

    ``runs`` are the ids of the runs by what they did ("compile", "measure"), ``image``
    the image's digest, ``golden`` the digest of the judge's files, ``sources`` the
    sha256 of each of the team's files, ``at`` seconds since 1970.
    """

    title: str
    trust: str
    ranked: bool = False
    why_not_ranked: tuple[str, ...] = ()
    runs: dict[str, str] = {}
    engine: str = ""
    image: str = ""
    golden: str = ""
    sources: dict[str, Sha256] = {}
    commit: str = ""
    at: float = 0.0


class Measurement(Struct, frozen=True, rename={"accuracy": "class"}):
    """The outcome of a submission that was measured, or checked without a GPU.

    Without one ``gpu`` and ``architecture`` are null, and no entry has a time.
    ``began`` is a date and time; ``waited_s`` how long an idle, cool GPU was waited
    for, ``held_s`` how long it was held; ``celsius`` and ``watts`` its temperature and
    power before and after, ``throttled`` the reasons for lower clocks that were seen,
    ``others`` the number of other programs on the GPU. Where there is no entry,
    ``reference_ms`` is the time of the judge's reference, of all layers.
    """

    version: Literal[1]
    milestone: MilestoneName
    accuracy: Literal["fp32", "tf32", "half"]
    architecture: Architecture | None
    seed: Annotated[int, Meta(ge=0)] | Text
    gpu: MeasuredGpu | None
    entries: Annotated[tuple[MeasuredEntry, ...], Meta(max_length=16)]
    rates: MeasuredRates | None = None
    began: Text = ""
    waited_s: Seconds = 0.0
    held_s: Seconds = 0.0
    celsius: tuple[Celsius | None, Celsius | None] = (None, None)
    watts: tuple[Watts | None, Watts | None] = (None, None)
    throttled: Annotated[tuple[Text, ...], Meta(max_length=32)] = ()
    others: Number = 0
    reference_ms: Milliseconds | None = None
    host: MeasurementHost | None = None

    @property
    def accepted(self) -> bool:
        """Whether there are entries, and every one is accepted."""
        return bool(self.entries) and all(entry.accepted for entry in self.entries)

    @property
    def best(self) -> MeasuredEntry | None:
        """The fastest entry that was timed; None without one."""
        timed = (entry for entry in self.entries if entry.ms is not None)
        return min(timed, key=lambda one: (one.ratio or 0.0, one.ms), default=None)

    @property
    def score(self) -> float | None:
        """The least ratio of its entries, or time in ms where there is no ratio.

        None where no time counts.
        """
        if (best := self.best) is None:
            return None
        return best.ms if best.ratio is None else best.ratio

    @property
    def marks(self) -> tuple[str, ...]:
        """What staff may want to look at, though it is accepted."""
        found = []
        for entry in self.entries:
            for layer in entry.layers:
                if layer.floor_ms and layer.ms < layer.floor_ms:
                    text = f"{entry.variant}: {layer.name} is faster than its bound"
                    found.append(text)
            low, high = entry.interval or (0.0, 0.0)
            wide = (high - low) / entry.ratio if entry.ratio else 0.0
            if wide > WIDE:
                found.append(f"{entry.variant}: its interval is {wide:.1%} wide")
        return tuple(found)

    @property
    def brief(self) -> Measurement:
        """The measurement without its samples, which are most of it."""
        entries = (replace(entry, samples=()) for entry in self.entries)
        return replace(self, entries=tuple(entries))

    @property
    def counts(self) -> bool:
        """Whether it is accepted, and nothing that rai knows speaks against it."""
        host = self.host
        return self.accepted and host is not None and not host.why_not_ranked


class MeasurementError(RaiError):
    """A file that is no measurement."""


def read(data: bytes, limit: int = MEASUREMENT_BYTES) -> Measurement:
    """Return a container's measurement; raise MeasurementError if it cannot be one.

    It must not say what only rai can, ``host``, nor contradict itself.
    """
    if len(data) > limit:
        text = f"{MEASUREMENT_FILE} has {len(data)} bytes; at most {limit} are read"
        raise MeasurementError(text)
    found = from_json(data)
    if found.host is not None:
        raise MeasurementError(f"{MEASUREMENT_FILE}: `host` is not the judge's to say")
    names = [entry.variant for entry in found.entries]
    if len(set(names)) < len(names):
        raise MeasurementError(f"{MEASUREMENT_FILE} has two entries of one variant")
    for entry in found.entries:
        if problem := _contradiction(entry, timed=found.gpu is not None):
            text = f"{MEASUREMENT_FILE}: entry {entry.variant} {problem}"
            raise MeasurementError(text)
    return found


def from_json(data: bytes) -> Measurement:
    """Return a measurement that rai has kept; raise MeasurementError if damaged."""
    try:
        return msgspec.json.decode(data, type=Measurement)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MeasurementError(f"{MEASUREMENT_FILE} cannot be read: {error}") from None


def to_json(measurement: Measurement) -> bytes:
    """Return the measurement as JSON, indented, and without what is left unsaid."""
    return msgspec.json.format(screen.json_bytes(measurement), indent=1) + b"\n"


def _contradiction(entry: MeasuredEntry, *, timed: bool) -> str:
    if entry.accepted and entry.why:
        return "is accepted, and says why it is not"
    if not entry.accepted and not entry.why:
        return "is not accepted, but does not say why"
    if entry.accepted and not entry.correct:
        return "is accepted, but not correct"
    if entry.correct and entry.wrong is not None:
        return "is correct, and has a wrong number"
    if timed and entry.accepted and (entry.ratio is None or entry.interval is None):
        return "is accepted, but has no ratio with an interval"
    if entry.interval and not entry.interval[0] <= entry.interval[1]:
        return "has an interval that ends before it begins"
    if entry.correct and entry.fault:
        return "is correct, and failed"
    if not timed and (entry.ms is not None or entry.samples):
        return "has times, but no GPU"
    layers = {layer.name for layer in entry.layers}
    if any(sample.layer not in layers for sample in entry.samples):
        return "has samples of a layer that it does not have"
    return ""
