"""Statistics of measured times, and lower bounds (floors) of a convolution's time.

Nothing here needs a GPU: a stopwatch is any object that times a call.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from time import perf_counter
from typing import Protocol

import numpy as np
from course.shapes import ConvShape

Way = Callable[[], object]  # an implementation to time: a call starts it on the GPU

FLOAT_BYTES = 4
STORED = {"float32": FLOAT_BYTES, "float16": 2}  # bytes
FMA, SPLIT, HALF = "fma", "split", "half"
PRODUCTS = {FMA: 1, SPLIT: 3, HALF: 1}  # hardware products for one product


class Stopwatch(Protocol):
    """Times one call after clearing the caches."""

    def ms(self, way: Way) -> float:
        """Run it once; return the GPU's milliseconds."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How long to warm up, and how many samples to take."""

    least: int = 20  # samples
    error: float = 0.01  # enough when the standard error is below this x the mean
    most_s: float = 10.0
    batch: int = 5  # samples of a median in the warm-up
    agree: float = 0.02  # the relative difference of medians that ends the warm-up
    warm_s: float = 5.0

    def settled(self, samples: Sequence[float]) -> bool:
        """Return whether the last two batches have about the same median."""
        if len(samples) < 2 * self.batch:
            return False
        last = statistics.median(samples[-self.batch :])
        before = statistics.median(samples[-2 * self.batch : -self.batch])
        return abs(last - before) <= self.agree * before

    def enough(self, samples: Sequence[float], spent_s: float) -> bool:
        """Return whether there are enough samples."""
        if len(samples) < self.least:
            return False
        mean = statistics.fmean(samples)
        return spent_s >= self.most_s or standard_error(samples) < self.error * mean


FULL = Rule()
QUICK = Rule(least=5, error=0.05, most_s=1.0, batch=3, agree=0.1, warm_s=0.5)


@dataclass(frozen=True, slots=True)
class Spread:
    """Statistics of one implementation's times."""

    median_ms: float
    min_ms: float
    max_ms: float
    err_ms: float  # the standard error of the mean
    n: int
    discarded: int  # samples of the warm-up; no others are discarded


def spread(samples: Sequence[float], discarded: int) -> Spread:
    """Return the statistics of samples in milliseconds."""
    return Spread(
        statistics.median(samples),
        min(samples),
        max(samples),
        standard_error(samples),
        len(samples),
        discarded,
    )


def standard_error(samples: Sequence[float]) -> float:
    """Return the standard error of the mean."""
    if len(samples) < 2:
        return 0.0
    return statistics.stdev(samples) / sqrt(len(samples))


def alternate(
    ways: Mapping[str, Way],
    stopwatch: Stopwatch,
    rule: Rule,
    now: Callable[[], float] = perf_counter,
) -> dict[str, Spread]:
    """Time implementations in turns, so that disturbances affect all of them alike.

    They warm up until each has settled, or for ``rule.warm_s``. Then samples are taken
    of all until there are enough of each.
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
    """A GPU's peak rates, and how they were measured."""

    copy_gbps: float  # bytes read and bytes written
    fma_tflops: float
    half_tflops: float
    sources: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Floors:
    """Lower bounds of a convolution's time."""

    bytes_ms: float
    flops_ms: float

    @property
    def ms(self) -> float:
        """Return the higher of both."""
        return max(self.bytes_ms, self.flops_ms)


def flops(s: ConvShape) -> int:
    """Return the number of multiplications and additions."""
    return 2 * s.B * s.floats_out * s.C * s.K * s.K


def moved_bytes(s: ConvShape, stored: int = FLOAT_BYTES) -> int:
    """Return the bytes that must be read, ``stored`` per element, and written."""
    read = s.B * s.floats_in + s.weights
    return stored * read + FLOAT_BYTES * s.B * s.floats_out


def floors(s: ConvShape, arithmetic: str, stored: int, rates: Rates) -> Floors:
    """Return the lower bounds by a convolution's bytes and by its multiplications."""
    tflops = rates.fma_tflops if arithmetic == FMA else rates.half_tflops
    return Floors(
        1e-6 * moved_bytes(s, stored) / rates.copy_gbps,
        1e-9 * PRODUCTS[arithmetic] * flops(s) / tflops,
    )


def sampled(images: int, third: int = 8) -> list[int]:
    """Return the images to check: the first, middle and last ``third``."""
    if images <= 3 * third:
        return list(range(images))
    middle = (images - third) // 2
    starts = (0, middle, images - third)
    return [start + n for start in starts for n in range(third)]


def relative_error(y: np.ndarray, right: np.ndarray) -> float:
    """Return ||y - right|| / ||right||, or NaN if y has infinities or NaN."""
    if not np.isfinite(y).all():
        return float("nan")
    return float(np.linalg.norm(y - right) / np.linalg.norm(right))


def fault(error: float, tolerance: float, unwritten: int = 0) -> str | None:
    """Return what is wrong with a result; None if it is right."""
    if unwritten:
        return f"{unwritten} elements are not written, or not finite"
    if not isfinite(error):
        return "some elements are not finite"
    if error > tolerance:
        return f"the error is {error:.1e}, more than {tolerance:.0e}"
    return None
