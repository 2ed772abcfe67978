"""Whether comparisons tell identical code from a change, by simulation.

Run it as python -m tools.benchmarks.comparison.

Simulate benches of 30 pairs with the noise of real rows, each judged by the code that
`rai bench` asks, and append rows to results.jsonl. In each pair the order is drawn, so
a simulated sample has the noise of the moment that it is taken at, whatever its side.

    gpu      how far each kernel of project/measurements/nvidia-h200.jsonl spread, in
             the shape of the samples of docs/h200/submit.json
    drift, bursts, clocks
             the same on a GPU that warms up, is disturbed, or has two clock rates
    busy     runs of a small program in a row, on two cores that others used as well:
             noise.json, which `python -m tools.benchmarks.comparison take` writes
    cpu      the processor time of the same runs
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from random import Random

from runner.figures.comparison import compare, stands
from runner.figures.statistics import looks
from tools.benchmarks import rows

PAIRS = 30
IDENTICAL = 10_000
CHANGED = 1_000
CHANGE = 1.02
BOTH = (1.0, CHANGE)
WORKERS = 4
KERNELS = 3
MOST_FALSE = 1 / 200
LEAST_FOUND = 95 / 100
SHOWN = ("busy", "cpu")
"""For these the share of changes of 2 % that are found is shown, and has no goal."""

NOISE = Path(__file__).with_name("noise.json")

Moments = dict[str, list[float]]
"""What each metric is multiplied by at each moment, two moments a pair."""
Noise = Callable[[Random], Moments]
MAIN, CPU = "op_time[1]", "command[1].cpu"


def main() -> None:
    """Simulate, and append a row for each noise."""
    if sys.argv[1:] == ["take"]:
        take(600)
        return
    few = "identical code: under 1 of 200 find a change"
    tasks = [(way, name, f) for way in (paired, apart) for name in NOISES for f in BOTH]
    with ProcessPoolExecutor(WORKERS) as pool:
        under_way = {task: pool.submit(*task) for task in tasks}
        for name in NOISES:
            wrong, found = (under_way[paired, name, f].result() for f in BOTH)
            sure = name in SHOWN or found["share"] >= LEAST_FOUND
            rows.keep(
                rows.row(
                    f"comparison in pairs, noise of {name}",
                    few if name in SHOWN else f"{few}; 2 %: 95 of 100 do",
                    wrong["share"] < MOST_FALSE and sure,
                    identical=wrong,
                    changed=found,
                )
            )
        for name in NOISES:
            wrong, found = (under_way[apart, name, f].result() for f in BOTH)
            rows.keep(
                rows.row(
                    f"comparison of runs apart, noise of {name}",
                    "shown: the machine may change between the runs",
                    ok=True,
                    identical=wrong,
                    changed=found,
                )
            )


def paired(name: str, factor: float) -> dict[str, float]:
    """Return how many simulated benches find a change, and after how many pairs."""
    random = Random(f"{name} {factor}")
    many = IDENTICAL if factor == 1 else CHANGED
    found, called, stopped = 0, 0, list[int]()
    for _ in range(many):
        before, after = _sides(NOISES[name](random), factor, random)
        pairs = PAIRS
        for pairs in looks(PAIRS):
            compared = compare(_first(before, pairs), _first(after, pairs), paired=True)
            if stands(compared):
                break
        main = compared[0].verdict
        # Of identical code any metric's change is false, of the other the time's true.
        anything = any(one.verdict.found for one in compared)
        found += anything if factor == 1 else main == "slower"
        called += main == "no difference"
        stopped.append(pairs)
    return {
        "n": many,
        "found": found,
        "share": round(found / many, 4),
        "no_difference": called,
        "median_pairs": statistics.median(stopped),
    }


def apart(name: str, factor: float) -> dict[str, float]:
    """Return how many pairs of runs that follow each other find a change."""
    random, many = Random(f"{name} {factor} apart"), CHANGED
    found = 0
    for _ in range(many):
        values = NOISES[name](random)[MAIN]
        before = {MAIN: tuple(values[:PAIRS])}
        after = {MAIN: tuple(factor * value for value in values[PAIRS:])}
        (one,) = compare(before, after, paired=False)
        found += one.verdict.found if factor == 1 else one.verdict == "slower"
    return {"n": many, "found": found, "share": round(found / many, 4)}


def _sides(moments: Moments, factor: float, random: Random) -> tuple[Moments, Moments]:
    """Deal the moments of each pair to the sides, and slow the second one down."""
    order = [random.random() < 0.5 for _ in range(PAIRS)]
    before, after = dict[str, list[float]](), dict[str, list[float]]()
    for metric, values in moments.items():
        slower = factor if metric in (MAIN, "kernel[1].0") else 1.0
        before[metric] = [values[2 * at + on] for at, on in enumerate(order)]
        after[metric] = [
            slower * values[2 * at + 1 - on] for at, on in enumerate(order)
        ]
    return before, after


def _first(samples: Moments, pairs: int) -> dict[str, tuple[float, ...]]:
    return {metric: tuple(values[:pairs]) for metric, values in samples.items()}


def gpu(random: Random) -> Moments:
    """Return the noise of a time that is the sum of kernels, and of the kernels."""
    spreads, shape = _kernels()
    parts = [random.uniform(0.1, 1) for _ in range(KERNELS)]
    kernels = []
    for part in parts:
        spread = random.choice(spreads)
        values = (1 + spread * random.choice(shape) for _ in range(2 * PAIRS))
        kernels.append([part * max(0.5, value) for value in values])
    found = {f"kernel[1].{at}": values for at, values in enumerate(kernels)}
    # The time of kernel 0 alone: a sum would hide its change behind the others.
    return {MAIN: list(kernels[0]), **found}


def drift(random: Random) -> Moments:
    """Return the noise of a GPU that becomes up to 5 % slower, or faster."""
    most = random.uniform(-0.05, 0.05)
    ramp = [1 + most * at / (2 * PAIRS) for at in range(2 * PAIRS)]
    return _times(gpu(random), ramp)


def bursts(random: Random) -> Moments:
    """Return the noise of a GPU where one call in 20 is 20 % slower, on average."""
    hit = [
        1 + random.expovariate(5) if random.random() < 0.05 else 1.0
        for _ in range(2 * PAIRS)
    ]
    return _times(gpu(random), hit)


def clocks(random: Random) -> Moments:
    """Return the noise of a GPU whose clock falls by 3 %, or rises, every ten calls."""
    slow, states = random.random() < 0.5, list[float]()
    for _ in range(2 * PAIRS):
        slow ^= random.random() < 0.1
        states.append(1.03 if slow else 1.0)
    return _times(gpu(random), states)


def busy(random: Random) -> Moments:
    """Return successive runs of a program, from anywhere in the real sequence."""
    taken = _taken()
    start = random.randrange(len(taken[MAIN]) - 2 * PAIRS)
    return {name: values[start : start + 2 * PAIRS] for name, values in taken.items()}


def cpu(random: Random) -> Moments:
    """Return the processor times of such runs."""
    return {MAIN: busy(random)[CPU]}


NOISES: dict[str, Noise] = {
    "gpu": gpu,
    "drift": drift,
    "bursts": bursts,
    "clocks": clocks,
    "busy": busy,
    "cpu": cpu,
}


def _times(moments: Moments, factors: list[float]) -> Moments:
    return {
        metric: [a * b for a, b in zip(values, factors, strict=True)]
        for metric, values in moments.items()
    }


@cache
def _kernels() -> tuple[list[float], list[float]]:
    """Return how far real kernels spread, and samples in units of their spread."""
    measured = (
        (rows.ROOT / "project/measurements/nvidia-h200.jsonl").read_text().splitlines()
    )
    spreads = [
        one["err_ms"] * math.sqrt(one["n"]) / one["median_ms"]
        for one in map(json.loads, measured)
        if one["what"] == "convolution" and one.get("err_ms")
    ]
    submitted = json.loads((rows.ROOT / "docs/h200/submit.json").read_text())
    shape: list[float] = []
    for field in ("ms", "reference_ms"):
        for layer in ("conv1", "conv2"):
            shape += _standardized(
                [
                    sample[field]
                    for entry in submitted["entries"]
                    for sample in entry["samples"]
                    if sample["layer"] == layer
                ]
            )
    return spreads, shape


def _standardized(values: list[float]) -> list[float]:
    middle, spread = statistics.median(values), statistics.stdev(values)
    return [(value - middle) / spread for value in values]


@cache
def _taken() -> Moments:
    found: Moments = json.loads(NOISE.read_text())["samples"]
    return found


PROGRAM = """
import time
began, used = time.perf_counter(), time.process_time()
sum(i * i % 7 for i in range(600000))
print(time.perf_counter() - began, time.process_time() - used)
"""


def take(runs: int) -> None:
    """Time a small program so many times in a row, and keep the samples."""
    found = {MAIN: list(_runs(runs))}
    names = (MAIN, CPU, "command[1].wall")
    columns = zip(*found[MAIN], strict=True)
    samples = {name: list(each) for name, each in zip(names, columns, strict=True)}
    about = {**rows.row("samples of a small program", "", ok=True), "samples": samples}
    NOISE.write_text(json.dumps(about) + "\n")


def _runs(runs: int) -> Iterator[tuple[float, ...]]:
    for _ in range(runs):
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-I", "-c", PROGRAM],
            capture_output=True,
            text=True,
            check=True,
        )
        wall_s = time.perf_counter() - began
        op_s, cpu_s = map(float, done.stdout.split())
        yield round(op_s, 6), round(cpu_s, 6), round(wall_s, 6)


if __name__ == "__main__":
    main()
