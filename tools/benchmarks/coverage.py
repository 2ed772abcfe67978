"""How often the interval of a comparison holds the true ratio, by simulation.

Run it as python -m tools.benchmarks.coverage.

Draw the ratios of 10 to 30 pairs whose true change is known, ask the code that `rai
bench` asks for their interval, and append rows to results.jsonl. Then let whole benches
of 30 pairs look for a slowdown of 2 %.

    normal, student   ratios of independent pairs, normal and Student's t of 3 degrees
    heaps             both sides have samples in two heaps, a clock with two rates
    two               the ratios themselves lie in two heaps of one size
    correlated        neighbours are alike: AR(1) of rho 0.7
    uneven            three of ten ratios lie in a second heap: the middle estimates the
                      median of the averages of two pairs there, so this is shown only
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from numpy.typing import NDArray

from runner.figures import statistics as statistic
from runner.figures.comparison import Change, compare, stands
from runner.figures.statistics import looks
from tools.benchmarks import rows

PAIRS = (10, 12, 15, 20, 24, 30)
MANY = 10_000
BENCHES = 2_000
WORKERS = 4
RHO = 0.7
SLOWER, NOISE = 1.02, 0.015
LEAST_HELD = {"correlated": 0.97, "uneven": 0.0}
LEAST_FOUND = 0.9
MOST_FALSE = 1 / 200

Ratios = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Ratios]


def main() -> None:
    """Simulate, and append a row for each noise and one for the slowdown."""
    with ProcessPoolExecutor(WORKERS) as pool:
        held = {
            name: {n: pool.submit(share_held, name, n, MANY) for n in PAIRS}
            for name in NOISES
        }
        found = {
            (noise, factor): pool.submit(benches, noise, factor, BENCHES)
            for noise in (NOISE, NOISE / math.sqrt(2))
            for factor in (1.0, SLOWER)
        }
        for name, by_pairs in held.items():
            shares = {n: each.result() for n, each in by_pairs.items()}
            least = LEAST_HELD.get(name, 0.99)
            worst = min(share for n, share in shares.items() if _counts(name, n))
            goal = f"holds the true ratio in {least:.0%}" if least else "shown"
            if name == "correlated":
                goal += f" from {statistic.SERIES} pairs; below, or no verdict"
            rows.keep(rows.row(f"interval, {name}", goal, worst >= least, held=shares))
        for (noise, factor), each in found.items():
            shares = each.result()
            ok = shares["slower"] >= LEAST_FOUND
            if factor == 1:
                ok = shares["slower"] + shares["faster"] < MOST_FALSE
            name = f"benches of {factor} with noise of {noise:.2%} a sample"
            goal = "2 %: 9 of 10 found; identical: under 1 of 200"
            rows.keep(rows.row(name, goal, ok, found=shares))


def _counts(name: str, pairs: int) -> bool:
    return name != "correlated" or pairs >= statistic.SERIES


def share_held(name: str, pairs: int, many: int) -> float:
    """Return how often the interval holds the true value, or claims none."""
    random = np.random.default_rng([pairs, *name.encode()])
    draw, true = NOISES[name]
    held = 0
    for _ in range(many):
        ratios = [float(value) for value in draw(random, pairs)]
        low, _, high = statistic.interval(ratios)
        held += low <= true <= high or statistic.too_alike(ratios)
    return held / many


def benches(noise: float, factor: float, many: int) -> dict[str, float]:
    """Return how often benches find each change; samples have that much noise."""
    random = np.random.default_rng(int(1e6 * noise * factor))
    ended = dict.fromkeys(("slower", "faster", "no difference", "inconclusive"), 0)
    for _ in range(many):
        verdict = _bench(random, noise, factor)
        ended[verdict.value] += 1
    return {name: count / many for name, count in ended.items()}


def _bench(random: np.random.Generator, noise: float, factor: float) -> Change:
    most = max(PAIRS)
    samples = np.exp(random.normal(0, noise, (2, most))) * [[1.0], [factor]]
    before, after = (tuple(float(value) for value in side) for side in samples)
    for pairs in looks(most):
        one, other = {"op_time[1]": before[:pairs]}, {"op_time[1]": after[:pairs]}
        found = compare(one, other, paired=True)
        if stands(found):
            break
    return found[0].verdict


def _heaps(random: np.random.Generator, pairs: int) -> Ratios:
    sides = random.normal(0, 0.1, (2, pairs)) + (random.random((2, pairs)) < 0.3)
    return np.asarray(sides[1] - sides[0])


def _two(random: np.random.Generator, pairs: int) -> Ratios:
    return random.normal(0, 0.1, pairs) + np.where(random.random(pairs) < 0.5, -1, 1)


def _uneven(random: np.random.Generator, pairs: int) -> Ratios:
    return random.normal(0, 0.1, pairs) + (random.random(pairs) < 0.3)


def _correlated(random: np.random.Generator, pairs: int) -> Ratios:
    drawn = random.normal(0, 1, pairs)
    for at in range(1, pairs):
        drawn[at] = RHO * drawn[at - 1] + math.sqrt(1 - RHO**2) * drawn[at]
    return drawn


NOISES: dict[str, tuple[Draw, float]] = {
    "normal": (lambda random, pairs: random.normal(0, 1, pairs), 0.0),
    "student": (lambda random, pairs: random.standard_t(3, pairs), 0.0),
    "heaps": (_heaps, 0.0),
    "two": (_two, 0.0),
    "correlated": (_correlated, 0.0),
    "uneven": (_uneven, 0.0566),
}
"""How to draw the logarithms of a noise's ratios, and their true median."""


if __name__ == "__main__":
    main()
