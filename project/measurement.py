"""What is made of times: when there are enough of them, and what bounds them below.

Nothing here needs a GPU: a stopwatch is anything that times a call.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from time import perf_counter
from typing import Protocol

import numpy as np
from shapes import ConvShape

Way = Callable[[], object]  # one way to compute something: it starts work on the GPU

FLOAT_BYTES = 4
STORED = {"float32": FLOAT_BYTES, "float16": 2}  # bytes
FMA, SPLIT, HALF = "fma", "split", "half"
PRODUCTS = {FMA: 1, SPLIT: 3, HALF: 1}  # multiplications for one of the convolution's


class Stopwatch(Protocol):
    """Times one call after clearing the caches."""

    def ms(self, way: Way) -> float:
        """Run it once; say how long the GPU took."""


@dataclass(frozen=True, slots=True)
class Rule:
    """When to begin to count, and when to stop."""

    least: int = 20  # samples
    error: float = 0.01  # the standard error's share of the mean that is good enough
    most_s: float = 10.0
    batch: int = 5  # samples of one median while warming up
    agree: float = 0.02  # how far two successive medians may be apart
    warm_s: float = 5.0

    def settled(self, samples: Sequence[float]) -> bool:
        """Whether the last two batches have the same median."""
        if len(samples) < 2 * self.batch:
            return False
        last = statistics.median(samples[-self.batch :])
        before = statistics.median(samples[-2 * self.batch : -self.batch])
        return abs(last - before) <= self.agree * before

    def enough(self, samples: Sequence[float], spent_s: float) -> bool:
        """Whether these samples will do."""
        if len(samples) < self.least:
            return False
        mean = statistics.fmean(samples)
        return spent_s >= self.most_s or standard_error(samples) < self.error * mean


FULL = Rule()
QUICK = Rule(least=5, error=0.05, most_s=1.0, batch=3, agree=0.1, warm_s=0.5)


@dataclass(frozen=True, slots=True)
class Spread:
    """The times of one way."""

    median_ms: float
    min_ms: float
    max_ms: float
    err_ms: float  # the standard error of the mean
    n: int
    discarded: int  # samples of the warm-up; none is thrown away later


def spread(samples: Sequence[float], discarded: int) -> Spread:
    """Sum up samples."""
    return Spread(
        statistics.median(samples),
        min(samples),
        max(samples),
        standard_error(samples),
        len(samples),
        discarded,
    )


def standard_error(samples: Sequence[float]) -> float:
    """Say how far the mean of some samples may be from that of all."""
    if len(samples) < 2:
        return 0.0
    return statistics.stdev(samples) / sqrt(len(samples))


def alternate(
    ways: Mapping[str, Way],
    stopwatch: Stopwatch,
    rule: Rule,
    now: Callable[[], float] = perf_counter,
) -> dict[str, Spread]:
    """Time ways in turns, so that what is slow for a while is slow for all.

    They warm up together until every one has settled, and go on together until there
    are enough samples of every one.
    """
    warm: dict[str, list[float]] = {name: [] for name in ways}
    began = now()
    while not all(map(rule.settled, warm.values())) and now() - began < rule.warm_s:
        for _ in range(rule.batch):
            _turn(ways, stopwatch, warm)
    taken: dict[str, list[float]] = {name: [] for name in ways}
    began = now()
    while not all(rule.enough(times, now() - began) for times in taken.values()):
        _turn(ways, stopwatch, taken)
    return {name: spread(taken[name], len(warm[name])) for name in ways}


def _turn(
    ways: Mapping[str, Way], stopwatch: Stopwatch, times: Mapping[str, list[float]]
) -> None:
    for name, way in ways.items():
        times[name].append(stopwatch.ms(way))


@dataclass(frozen=True, slots=True)
class Rates:
    """What a GPU can do at most, and how that is known."""

    copy_gbps: float  # bytes read and bytes written
    fma_tflops: float
    half_tflops: float
    sources: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Floors:
    """What no convolution of a kind can be faster than."""

    bytes_ms: float
    flops_ms: float

    @property
    def ms(self) -> float:
        """Give the higher one."""
        return max(self.bytes_ms, self.flops_ms)


def flops(s: ConvShape) -> int:
    """Count multiplications and additions."""
    return 2 * s.B * s.floats_out * s.C * s.K * s.K


def moved_bytes(s: ConvShape, stored: int = FLOAT_BYTES) -> int:
    """Count the bytes that must be read, of what is stored so wide, and written."""
    read = s.B * s.floats_in + s.weights
    return stored * read + FLOAT_BYTES * s.B * s.floats_out


def floors(s: ConvShape, arithmetic: str, stored: int, rates: Rates) -> Floors:
    """Bound a convolution's time by its bytes, and by its multiplications."""
    tflops = rates.fma_tflops if arithmetic == FMA else rates.half_tflops
    return Floors(
        1e-6 * moved_bytes(s, stored) / rates.copy_gbps,
        1e-9 * PRODUCTS[arithmetic] * flops(s) / tflops,
    )


def sampled(images: int, third: int = 8) -> list[int]:
    """Choose the images to check: the first, some in the middle, the last."""
    if images <= 3 * third:
        return list(range(images))
    middle = (images - third) // 2
    starts = (0, middle, images - third)
    return [start + n for start in starts for n in range(third)]


def relative_error(y: np.ndarray, right: np.ndarray) -> float:
    """Give ||y - right|| / ||right||; NaN where a number is missing."""
    if not np.isfinite(y).all():
        return float("nan")
    return float(np.linalg.norm(y - right) / np.linalg.norm(right))


def fault(error: float, tolerance: float, unwritten: int = 0) -> str | None:
    """Say in what a result is wrong; None where it is right."""
    if unwritten:
        return f"{unwritten} numbers are not written, or not finite"
    if not isfinite(error):
        return "some numbers are not finite"
    if error > tolerance:
        return f"the error is {error:.1e}, over {tolerance:.0e}"
    return None
