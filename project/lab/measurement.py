"""Statistics of timed calls, and a model of the least time of a convolution.

Nothing here needs a GPU: ``sample`` is any function that times a call.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil, sqrt
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from course.shapes import ConvShape

Way = Callable[[], object]  # an implementation to time: a call starts it on the GPU

FLOAT_BYTES = 4
STORED = {"float32": FLOAT_BYTES, "float16": 2}  # bytes
FMA, SPLIT, HALF = "fma", "split", "half"
PRODUCTS = {FMA: 1, SPLIT: 3, HALF: 1}  # hardware products for one product
BURST_MS = 200.0  # of calls back to back
BURSTS = 5  # that warm up, and again that are measured


class Sample(NamedTuple):
    """A timed call: the GPU's milliseconds, and its SM clock meanwhile."""

    ms: float
    mhz: float


Watch = Callable[[Way], Sample]  # runs it once, after clearing the caches


def mhz(before: np.ndarray, after: np.ndarray) -> float:
    """Return the SM clock between two stamps, each of multiprocessors x (ns, cycles).

    A multiprocessor without a stamp has zeros; 0 where none has both stamps.
    """
    both = (before[:, 0] > 0) & (after[:, 0] > before[:, 0])
    ns, cycles = (after - before)[both].sum(axis=0)
    return 1000 * float(cycles) / max(float(ns), 1.0)


@dataclass(frozen=True, slots=True)
class Rule:
    """How long to warm up, and how many samples to take."""

    least: int = 20  # samples
    error: float = 0.01  # enough when the standard error is below this x the mean
    most_s: float = 10.0
    batch: int = 5  # samples of a median in the warm-up
    agree: float = 0.02  # the relative difference of medians that ends the warm-up
    warm_s: float = 5.0

    def settled(self, samples: Sequence[Sample]) -> bool:
        """Return whether the last two batches have about the same median."""
        if len(samples) < 2 * self.batch:
            return False
        times = [sample.ms for sample in samples[-2 * self.batch :]]
        last = statistics.median(times[self.batch :])
        before = statistics.median(times[: self.batch])
        return abs(last - before) <= self.agree * before

    def enough(self, samples: Sequence[Sample], spent_s: float) -> bool:
        """Return whether there are enough samples."""
        if len(samples) < self.least:
            return False
        times = [sample.ms for sample in samples]
        mean = statistics.fmean(times)
        return spent_s >= self.most_s or standard_error(times) < self.error * mean


FULL = Rule()


@dataclass(frozen=True, slots=True)
class Spread:
    """Statistics of one implementation's samples."""

    median_ms: float
    min_ms: float
    max_ms: float
    err_ms: float  # the standard error of the mean
    n: int
    mhz: tuple[float, float, float] | None = None  # median, least and most

    def figures(self) -> dict[str, Any]:
        """Return the columns of a row, rounded."""
        found = {name: short(ms) for name, ms in asdict(self).items() if name != "mhz"}
        return found | ({"mhz": list(map(short, self.mhz))} if self.mhz else {})


def spread(ms: Sequence[float], clocks: Sequence[float] = ()) -> Spread:
    """Return the statistics of times, and of the SM clocks of each, if known."""
    middle = statistics.median
    found = (middle(clocks), min(clocks), max(clocks)) if clocks else None
    return Spread(middle(ms), min(ms), max(ms), standard_error(ms), len(ms), found)


def standard_error(samples: Sequence[float]) -> float:
    """Return the standard error of the mean."""
    if len(samples) < 2:
        return 0.0
    return statistics.stdev(samples) / sqrt(len(samples))


def alternate(
    ways: Mapping[str, Way],
    sample: Watch,
    rule: Rule,
    now: Callable[[], float] = perf_counter,
) -> dict[str, Spread]:
    """Time implementations in turns, so that disturbances affect all of them alike.

    They warm up until each has settled, or for ``rule.warm_s``. Then samples are taken
    of all until there are enough of each.
    """

    def turn(taken: Mapping[str, list[Sample]]) -> None:
        for name, way in ways.items():
            taken[name].append(sample(way))

    warm: dict[str, list[Sample]] = {name: [] for name in ways}
    began = now()
    while not all(map(rule.settled, warm.values())) and now() - began < rule.warm_s:
        for _ in range(rule.batch):
            turn(warm)
    taken: dict[str, list[Sample]] = {name: [] for name in ways}
    began = now()
    while not all(rule.enough(each, now() - began) for each in taken.values()):
        turn(taken)
    return {name: spread(*zip(*each, strict=True)) for name, each in taken.items()}


def back_to_back(way: Way, sample: Watch) -> Spread:
    """Time bursts of calls with nothing between, which heat the GPU; spread by call."""
    calls = ceil(BURST_MS / sample(way).ms)

    def burst() -> None:
        for _ in range(calls):
            way()

    taken = [sample(burst) for _ in range(2 * BURSTS)][BURSTS:]
    return spread([s.ms / calls for s in taken], [s.mhz for s in taken])


def compared(ours: Spread, peers: Mapping[str, Spread]) -> dict[str, Any]:
    """Return the columns that compare with the fastest of some peers."""
    if not peers:
        return {"peer": None, "times_peer": None}
    way = min(peers, key=lambda name: peers[name].median_ms)
    medians = {name: short(times.median_ms) for name, times in peers.items()}
    return {
        "peer": {"way": way, **peers[way].figures(), "medians_ms": medians},
        "times_peer": short(peers[way].median_ms / ours.median_ms),
    }


def short(value: float) -> float:
    """Round to five significant digits what is not an integer."""
    return value if isinstance(value, int) else float(f"{value:.5g}")


@dataclass(frozen=True, slots=True)
class Rates:
    """A GPU's peak rates."""

    copy_gbps: float  # bytes read and bytes written by a large copy
    fma_tflops: float  # of independent sums in registers
    half_tflops: float  # of a product of large matrices by PyTorch


def flops(s: ConvShape) -> int:
    """Return the number of multiplications and additions."""
    return 2 * s.B * s.floats_out * s.C * s.K * s.K


def moved_bytes(s: ConvShape, stored: int = FLOAT_BYTES) -> int:
    """Return the bytes that must be read, ``stored`` per element, and written."""
    read = s.B * s.floats_in + s.weights
    return stored * read + FLOAT_BYTES * s.B * s.floats_out


def modelled(
    s: ConvShape, arithmetic: str, stored: int, rates: Rates
) -> dict[str, float]:
    """Return the columns of a model: bytes at a copy's rate, products at their peak.

    It is no bound: bytes that are mostly written may go faster than a copy's.
    """
    tflops = rates.fma_tflops if arithmetic == FMA else rates.half_tflops
    bytes_ms = 1e-6 * moved_bytes(s, stored) / rates.copy_gbps
    flops_ms = 1e-9 * PRODUCTS[arithmetic] * flops(s) / tflops
    return {"model_bytes_ms": short(bytes_ms), "model_flops_ms": short(flops_ms)}
