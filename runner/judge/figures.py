"""The figures of a measurement: samples to a ratio with an interval.

A *round* times every layer of an entry once, and the reference kernel beside each.

    rules = Rules.from_json(job["rules"])
    while not enough(rules, samples, spent_s):
        samples += [Sample(...), Sample(...)]    # one for each layer
    result = score(samples, seed, site_ms)       # of everything: ms, ratio, interval
    table = layers(samples, floors, errors)      # of each layer
    json.dumps({**plain(result), "layers": plain(table), "samples": plain(samples)})

All times are milliseconds, clocks MHz. Nothing here needs a GPU. Whether a measurement
is accepted is decided in ``acceptance``.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from random import Random
from typing import Self

CONFIDENCE = 0.95
RESAMPLES = 2000
QUICK_RESAMPLES = 400
"""Of the interval that only decides whether to go on."""

EVERY = 4
"""After how many rounds each the interval is looked at."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How an entry is measured, and what is accepted.

    It takes ``least_rounds`` to ``rounds`` rounds. In between it ends when the interval
    is narrow (``interval_share`` of the ratio, from end to end) or after ``most_s``; a
    slow entry that has too few rounds by then goes on, for ``longest_s`` at most.
    ``warm_rounds`` before them do not count.
    The measurement waits up to ``cool_wait_s`` for a GPU of at most ``cool_c`` °C.

    Rounds with a call that golden's clock saw end ``late_us`` after its events do not
    count. What is refused: more than half of the rounds late, rounds whose ratios
    spread by more than ``spread`` (interquartile range by median); clocks that differ
    by more than ``clock_slack_us`` (``read_slack_us`` where the GPU changes to another
    process in between) and ``clock_slack_share`` of a round's time; a time
    below ``floor_share`` of the floor; a reference that is ``drift`` slower than alone,
    whose SM clock is ``clock_drop`` below that of the samples, or that is outside the
    site's ``band``; references that were throttled more often than the samples, by
    ``throttled_share`` of all.
    """

    rounds: int = 40
    least_rounds: int = 20
    most_s: float = 4.0
    longest_s: float = 8.0
    warm_rounds: int = 3
    cool_c: float = 65.0
    cool_wait_s: float = 60.0
    interval_share: float = 0.006
    spread: float = 0.05
    late_us: float = 150.0
    clock_slack_us: float = 30.0
    read_slack_us: float = 200.0
    clock_slack_share: float = 0.02
    floor_share: float = 0.85
    drift: float = 0.03
    clock_drop: float = 0.03
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

    ``ms`` is the time between the player's events, ``stamp_ms`` between its reads of
    the GPU's timer, ``wall_ms`` by golden's own clock from the request to the answer,
    overhead included, ``read_ms`` until it has looked at the output. ``sm_mhz`` is the
    SM clock during the call, ``reference_mhz`` during the reference; 0 if unknown.
    """

    layer: str
    round: int
    ms: float
    wall_ms: float
    stamp_ms: float
    sm_mhz: float
    reference_ms: float
    reference_mhz: float
    read_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class LayerFigures:
    """The medians of one layer's samples; clocks as minimum, median and maximum."""

    name: str
    ms: float
    reference_ms: float
    wall_ms: float
    sm_mhz: tuple[float, float, float]
    reference_mhz: tuple[float, float, float]
    floor_ms: float
    error: float


@dataclass(frozen=True, slots=True)
class Score:
    """The figures of an entry.

    ``ms`` is the median over rounds of the sum of its layers' times, ``ratio`` that of
    the sum divided by the sum of the reference's times, ``interval`` the ratio's
    bootstrap interval (95 %), ``score_ms`` the ratio times the site's time of the
    reference, if the site has one.
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


def latest_ms(rules: Rules, empty_ms: Sequence[float]) -> float:
    """Return the overhead from which on a call is late: beyond the lower quartile's."""
    lower = sorted(empty_ms)[len(empty_ms) // 4]
    return lower + rules.late_us / 1000


def timely(
    rules: Rules, samples: Sequence[Sample], empty_ms: Sequence[float]
) -> list[Sample]:
    """Return the samples of the rounds in which no call was late.

    A call is late if golden's clock saw more than ``late_us`` beyond the events and the
    lower quartile of the empty calls: the machine was busy elsewhere for a moment, or
    the events are wrong. It tells nothing of the kernels then, so it does not count.
    """
    if not empty_ms:
        return list(samples)
    most = latest_ms(rules, empty_ms)

    def late(sample: Sample) -> bool:
        slack = rules.clock_slack_share * sample.ms
        return sample.wall_ms - sample.ms > most + slack

    rounds = {sample.round for sample in samples if late(sample)}
    return [sample for sample in samples if sample.round not in rounds]


def score(
    samples: Sequence[Sample], seed: int, site_ms: float | None = None
) -> Score | None:
    """Return the figures of an entry, or None if it has no whole round.

    ``site_ms`` is the site's time of the reference on this model of GPU. The interval
    depends on the seed and the samples only.
    """
    found = ratios(samples)
    if not found:
        return None
    ratio = statistics.median(found)
    ms = statistics.median(ms for ms, _ in sums(samples))
    scored = None if site_ms is None else ratio * site_ms
    return Score(ms, ratio, interval(found, seed), scored)


def interval(
    values: Sequence[float], seed: int, resamples: int = RESAMPLES
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of the median (Efron, 1979)."""
    random, n = Random(seed), len(values)
    low, high = (n - 1) // 2, n // 2
    medians = []
    for _ in range(resamples):
        drawn = sorted(random.choices(values, k=n))
        medians.append((drawn[low] + drawn[high]) / 2)
    medians.sort()
    tail = round((1 - CONFIDENCE) / 2 * resamples)
    return medians[tail], medians[-1 - tail]


def enough(rules: Rules, samples: Sequence[Sample], spent_s: float) -> bool:
    """Return whether an entry has samples enough; ask after each round."""
    found = ratios(samples)
    n = len(found)
    if n >= rules.rounds or spent_s >= rules.longest_s:
        return True
    if n < max(rules.least_rounds, 1):
        return False
    if spent_s >= rules.most_s:
        return True
    if (n - rules.least_rounds) % EVERY:
        return False
    low, high = interval(found, n, QUICK_RESAMPLES)
    return high - low <= rules.interval_share * statistics.median(found)


def spread(values: Sequence[float]) -> float:
    """Return the interquartile range divided by the median; 0 for one value."""
    if len(values) < 2:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / middle if middle else math.inf


def layers(
    samples: Sequence[Sample],
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
            statistics.median(s.wall_ms for s in found),
            _range([s.sm_mhz for s in found]),
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
