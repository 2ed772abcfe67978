"""The figures of a measurement: samples to a ratio with an interval.

A *round* times every layer of an entry once, and the reference kernel beside each.

    rules = Rules.from_json(job["rules"])
    samples = [Sample(...), Sample(...), ...]    # one for each layer and round
    result = score(samples, site_ms)             # of everything: ms, ratio, interval
    table = layers(samples, mhz, floors, errors) # of each layer
    json.dumps({**plain(result), "layers": plain(table), "samples": plain(samples)})

All times are milliseconds, clocks MHz. Nothing here needs a GPU. Whether a measurement
is accepted is decided in ``acceptance``.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Self

BATCHES = 4
STUDENT = 3.182446
"""The 97.5 % quantile of Student's t with BATCHES - 1 degrees of freedom."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How an entry is measured, and what is accepted.

    It takes ``rounds`` rounds, or as many as begin within ``longest_s``, and at least
    ``least_rounds`` to be accepted. ``warm_rounds`` before them do not count.
    The measurement waits up to ``cool_wait_s`` for a GPU of at most ``cool_c`` °C.

    What is refused: rounds whose ratios spread by more than ``spread`` (interquartile
    range by median); a time below ``floor_share`` of the floor; a reference that is
    ``drift`` slower than alone, or outside the site's ``band``; references that were
    throttled more often than the samples, by ``throttled_share`` of all.
    """

    rounds: int = 40
    least_rounds: int = 40
    longest_s: float = 15.0
    warm_rounds: int = 8
    cool_c: float = 65.0
    cool_wait_s: float = 60.0
    spread: float = 0.05
    floor_share: float = 0.85
    drift: float = 0.03
    band: float = 0.05
    throttled_share: float = 0.5

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> Self:
        """Return rules with some values given; raise ValueError for an unknown one."""
        kinds = {name: type(value) for name, value in cls().to_json().items()}
        given: dict[str, float] = {}
        for name, value in values.items():
            if name not in kinds:
                raise ValueError(f"unknown rule {name!r}; known: {', '.join(kinds)}")
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"rule {name} is {value!r}; expected a number")
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"rule {name} is {value!r}; expected 0 or more")
            if kinds[name] is int and value != int(value):
                raise ValueError(f"rule {name} is {value!r}; expected a whole number")
            given[name] = kinds[name](value)
        return cls(**given)  # type: ignore[arg-type] # whole where they must be

    def to_json(self) -> dict[str, float]:
        """Return all values by name."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Sample:
    """One timed call of one layer, and the reference beside it.

    ``ms`` is by the judge's own clock, from its word to start until the GPU says that
    all is done: some 10 us more than between two events. ``reference_mhz`` is the SM
    clock during the reference, 0 if unknown.
    """

    layer: str
    round: int
    ms: float
    reference_ms: float
    reference_mhz: float


@dataclass(frozen=True, slots=True)
class LayerFigures:
    """The medians of one layer's samples; clocks as minimum, median and maximum.

    ``sm_mhz`` is of calls beside the samples, as the player says it.
    """

    name: str
    ms: float
    reference_ms: float
    sm_mhz: tuple[float, float, float]
    reference_mhz: tuple[float, float, float]
    floor_ms: float
    error: float


@dataclass(frozen=True, slots=True)
class Score:
    """The figures of an entry.

    ``ms`` is of the sum of its layers' times, ``ratio`` of that sum divided by the sum
    of the reference's times, ``interval`` the ratio's 95 % interval, ``score_ms`` the
    ratio times the site's time of the reference, if the site has one.
    """

    ms: float
    ratio: float
    interval: tuple[float, float]
    score_ms: float | None


def whole_rounds(samples: Sequence[Sample]) -> list[list[Sample]]:
    """Return the samples of each round that has all layers."""
    names = {sample.layer for sample in samples}
    rounds: dict[int, dict[str, Sample]] = {}
    for sample in samples:
        rounds.setdefault(sample.round, {})[sample.layer] = sample
    return [
        list(one.values()) for _, one in sorted(rounds.items()) if one.keys() == names
    ]


def sums(samples: Sequence[Sample]) -> list[tuple[float, float]]:
    """Return the sums of times and of reference times of each whole round."""
    return [
        (sum(s.ms for s in one), sum(s.reference_ms for s in one))
        for one in whole_rounds(samples)
    ]


def ratios(samples: Sequence[Sample]) -> list[float]:
    """Return the ratio of each whole round."""
    return [ms / reference for ms, reference in sums(samples) if reference > 0]


def score(samples: Sequence[Sample], site_ms: float | None = None) -> Score | None:
    """Return the figures of an entry, or None if it has no whole round.

    ``site_ms`` is the site's time of the reference on this model of GPU.
    """
    found = ratios(samples)
    if not found:
        return None
    ratio, interval = centre(found)
    ms, _ = centre([ms for ms, _ in sums(samples)])
    scored = None if site_ms is None else ratio * site_ms
    return Score(ms, ratio, interval, scored)


def centre(values: Sequence[float]) -> tuple[float, tuple[float, float]]:
    """Return the mean of the medians of BATCHES parts in a row, and its 95 % interval.

    The interval is by Student's t of these medians (the method of batch means: Law,
    Simulation Modeling and Analysis, 9.5.3), which holds also where neighbours are
    alike; medians, so that the host's interrupts count for nothing. Too few values for
    that give their median and range.
    """
    if len(values) < 2 * BATCHES:
        return statistics.median(values), (min(values), max(values))
    ends = [n * len(values) // BATCHES for n in range(BATCHES + 1)]
    medians = [statistics.median(values[a:b]) for a, b in itertools.pairwise(ends)]
    middle = statistics.mean(medians)
    half = STUDENT * statistics.stdev(medians) / math.sqrt(BATCHES)
    return middle, (max(0.0, middle - half), middle + half)


def spread(values: Sequence[float]) -> float:
    """Return the interquartile range divided by the median; 0 for one value."""
    if len(values) < 2:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / middle if middle else math.inf


def layers(
    samples: Sequence[Sample],
    mhz: Mapping[str, Sequence[float]],
    floors: Mapping[str, float],
    errors: Mapping[str, float],
) -> tuple[LayerFigures, ...]:
    """Return the figures of each layer, in the order of their first samples."""
    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        by_name.setdefault(sample.layer, []).append(sample)
    return tuple(
        LayerFigures(
            name,
            statistics.median(s.ms for s in found),
            statistics.median(s.reference_ms for s in found),
            _range(mhz.get(name) or [0.0]),
            _range([s.reference_mhz for s in found]),
            floors.get(name, 0.0),
            errors.get(name, 0.0),
        )
        for name, found in by_name.items()
    )


def _range(values: Sequence[float]) -> tuple[float, float, float]:
    return min(values), statistics.median(values), max(values)


@dataclass(frozen=True, slots=True)
class Rates:
    """What this GPU was seen to do in the same run, and the size of its L2 cache.

    ``products_per_s`` are multiplications with their additions in the fastest
    arithmetic that the class may use; 0 if it was not measured.
    """

    copied_bytes_per_s: float
    products_per_s: float = 0.0
    l2_bytes: int = 0


def floor_ms(rates: Rates, read_bytes: int, written_bytes: int, products: int) -> float:
    """Return the least time that moving a layer's bytes and its products can take.

    What is written last may still be in the L2 cache when the time ends. The products
    are those of the plain sum; an algorithm that needs fewer of them is bound by bytes.
    """
    moved = read_bytes + max(0, written_bytes - rates.l2_bytes)
    by_bytes = 1000 * moved / rates.copied_bytes_per_s
    by_products = 1000 * products / rates.products_per_s if rates.products_per_s else 0
    return max(by_bytes, by_products)


def plain(value: object) -> object:
    """Return a value as JSON has it: None for a number that is not finite."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
