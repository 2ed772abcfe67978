"""A run's samples by metric, and the test and interval of two sides in pairs."""

from __future__ import annotations

import math
import re
import statistics
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import combinations_with_replacement, pairwise

from msgspec import Struct

from runner.core import CommandRecord, Findings, Outcome, RunRecord
from runner.core.quantities import brief
from runner.core.record import MOST_ROUNDS, MOST_SECONDS
from runner.figures.profile_tables import GPU, KERNELS

Samples = Mapping[str, tuple[float, ...]]
"""The values of each metric, one a round, in order; nan where a round has none."""

MOST_KERNELS = 60
"""Of each command those that take most of the time."""

MOST = 1e18
"""What is no smaller is no measurement; sums of thousands of values stay finite."""

PEAK_MEMORY = "peak_memory"

_SIZES = (("B", 1.0), ("KiB", 2.0**10), ("MiB", 2.0**20), ("GiB", 2.0**30))

CONFIDENCE = 0.995

MOST_PAIRS = 500
"""The most pairs that are looked at: their averages are 125,000."""

MOST_EXACT = 80
"""The most pairs whose distribution is counted."""

SERIES = 20
"""So few pairs that are correlated give no verdict."""

_MOST_CORRELATION = 0.95

LEVEL = 0.005
"""How often a comparison of identical code may find any change at all."""

SPENT: dict[int, float] = {
    12: 0.0006,
    18: 0.0007,
    24: 0.0009,
    60: 0.0005,
    120: 0.0004,
    240: 0.0004,
}
"""After how many pairs a bench looks, and the share of ``LEVEL`` that each look has.

All signs of 12 pairs alike have 1 chance in 2048, so that they decide one Op Time. A
bench that ends between looks has one more, with what the looks before it have left, so
that all of them together err no more than ``LEVEL`` (Bonferroni's inequality).
"""

PRIMARY_SHARE = 0.9
"""The share of the risk that the metrics have which a bench is about."""

_GPU_TABLES = frozenset({GPU, KERNELS})
_PLAIN_NAME = re.compile(r"[^\[\]\x00-\x1f\x7f]{1,100}")
_METRIC = re.compile(
    r"(?P<kind>op_time|correctness|command|kernel|peak_memory)"
    r"(?:\[(?P<key>[^\[\]]+)\])?(?:\.(?P<part>.+))?",
    re.DOTALL,
)


class Unit(StrEnum):
    """What a metric's values are in."""

    SECONDS = "seconds"
    BYTES = "bytes"
    SHARE = "share"


class MetricName(Struct, frozen=True):
    """A metric's name in its parts: op_time[final] has the kind op_time, the key final.

    ``part`` is a kernel's name, or wall or cpu of a command. What a user writes may
    leave out the key and the part, "" here: it names every metric that has any.
    """

    kind: str
    key: str = ""
    part: str = ""

    @property
    def unit(self) -> Unit:
        """The unit of its values."""
        if self.kind == "peak_memory":
            return Unit.BYTES
        return Unit.SHARE if self.kind == "correctness" else Unit.SECONDS

    def covers(self, other: MetricName) -> bool:
        """Whether the other is this metric, or one of those that this names."""
        return (
            self.kind == other.kind
            and self.key in ("", other.key)
            and self.part in ("", other.part)
        )


def parsed(name: str) -> MetricName:
    """Return the parts of a metric's name; raise ValueError if it is not one."""
    match = _METRIC.fullmatch(name)
    if match is None:
        raise ValueError(f"not a metric: {name!r}")
    kind, part = match["kind"], match["part"] or ""
    takes = {"command": part in ("", "wall", "cpu"), "kernel": True}
    if not takes.get(kind, not part):
        raise ValueError(f"{kind} has no part {part!r}")
    return MetricName(kind, match["key"] or "", part)


def samples(run: RunRecord, *, first: bool = True) -> dict[str, tuple[float, ...]]:
    """Return what each round of a run measured, by metric, in the commands' order.

    A metric has a value for each round of the run that its command had, nan where it
    failed or printed none. ``first`` says whether the first round counts. A command
    that was run once has one value, which is that of the first round.
    """
    named, found = keys(run.commands), dict[str, dict[int, float]]()
    last = 0
    for command in run.commands:
        last = max(last, min(command.round, MOST_ROUNDS - 1))
        ended_well = command.outcome in (Outcome.OK, Outcome.WRONG)
        if ended_well and 0 <= command.round < MOST_ROUNDS and command.index >= 0:
            key = named.get(command.number - 1, "")
            for metric, value in _measured(command, key) if key else ():
                if 0 <= value < MOST:
                    found.setdefault(metric, {})[command.round] = float(value)
    start = 0 if first else 1
    rounds = {
        metric: _in_order(values, start, last) for metric, values in found.items()
    }
    peak_bytes = run.peak_memory_bytes
    if peak_bytes is not None and 0 <= peak_bytes < MOST:
        rounds[PEAK_MEMORY] = (float(peak_bytes),)
    return _main_kernels({name: values for name, values in rounds.items() if values})


def known(values: Sequence[float]) -> list[float]:
    """Return the values of the rounds that have one."""
    return [value for value in values if not math.isnan(value)]


def keys(commands: Sequence[CommandRecord]) -> dict[int, str]:
    """Return the key of each command of the build file, by its index.

    A name that several commands have, or that looks like a number, is no key.
    """
    own = [command for command in commands if command.repeats is None]
    names = Counter(command.name for command in own)
    return {c.index: _key(c.name, c.index, names) for c in own}


def _key(name: str | None, index: int, names: Mapping[str | None, int]) -> str:
    clear = name and names[name] == 1 and not name.isdigit()
    if clear and name and name == name.strip() and _PLAIN_NAME.fullmatch(name):
        return name
    return str(index + 1)


def _measured(command: CommandRecord, key: str) -> Iterator[tuple[str, float]]:
    """Yield the metrics of one round of a command with their values, odd ones too."""
    printed, usages = command.findings.inferences, command.findings.time_usage
    times = [sum(one.op_times_s) for one in printed if one.op_times_s]
    if times and min(times) >= 0 and max(times) < MOST_SECONDS:
        yield f"op_time[{key}]", math.fsum(times)
    shares = [one.correctness for one in printed if one.correctness is not None]
    sizes = [1024 * one.max_rss_kb for one in usages if one.max_rss_kb is not None]
    for metric, value in (
        (f"correctness[{key}]", min(shares, default=None)),
        (f"command[{key}].wall", command.wall_s),
        (f"command[{key}].cpu", command.cpu_s),
        (f"{PEAK_MEMORY}[{key}]", max(sizes, default=None)),
    ):
        if value is not None:
            yield metric, value
    for name, total_s in _kernels(command.findings).items():
        yield f"kernel[{key}].{name}", total_s


def _kernels(found: Findings) -> dict[str, float]:
    totals: dict[str, float] = {}
    for profile in found.profiles:
        if profile.section in _GPU_TABLES:
            for row in filter(lambda row: row.name, profile.rows):
                totals[row.name] = totals.get(row.name, 0.0) + row.total_s
    return totals


def _in_order(values: Mapping[int, float], start: int, last: int) -> tuple[float, ...]:
    if max(values) == 0:
        return (values[0],)
    return tuple(values.get(at, math.nan) for at in range(start, last + 1))


def _main_kernels(rounds: dict[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
    """Return the samples without the kernels that take least of the time."""
    kernels = [metric for metric in rounds if parsed(metric).kind == "kernel"]
    kernels.sort(key=lambda metric: math.fsum(known(rounds[metric])), reverse=True)
    counts, dropped = Counter[str](), set[str]()
    for metric in kernels:
        key = parsed(metric).key
        counts[key] += 1
        if counts[key] > MOST_KERNELS:
            dropped.add(metric)
    return {name: values for name, values in rounds.items() if name not in dropped}


def amount(metric: str, value: float) -> str:
    """Format a value of a metric with four digits: 16.60 ms, 1.250 GiB, 0.8451."""
    unit = parsed(metric).unit
    if unit is Unit.SHARE:
        return f"{value:.4g}"
    if unit is Unit.SECONDS:
        return brief(value)
    sizes = (each for each in _SIZES if value / each[1] < 999.95)
    word, scale = next(sizes, _SIZES[-1])
    if word == "B" or value / scale >= 999.95:
        return f"{value / scale:.0f} {word}"
    return f"{value / scale:#.4g} {word}"


def percent(ratio: float) -> str:
    """Format a ratio as the change that it is: +2.1 %, -0.3 %, 0.0 %, x12.5."""
    if ratio >= 10:
        return f"x{ratio:.3g}"
    change = 100 * (ratio - 1)
    text = f"{change:+.1f}" if abs(change) >= 0.1 else f"{change:+.2f}"
    return f"{text} %" if float(text) else "0.0 %"


def signed_rank(logs: Sequence[float]) -> float:
    """Return the two-sided probability of such signs if each is a fair coin.

    Pairs whose sides are equal say nothing and are left out.
    """
    unequal = [value for value in logs if value]
    if not unequal:
        return 1.0
    ranks = doubled_ranks([abs(value) for value in unequal])
    up = sum(rank for rank, value in zip(ranks, unequal, strict=True) if value > 0)
    least = min(up, sum(ranks) - up)
    return min(1.0, 2 * _at_most(tuple(sorted(ranks)), least))


def interval(logs: Sequence[float]) -> tuple[float, float, float]:
    """Return low end, middle and high end of the interval of at least 10 pairs.

    Correlated pairs have an interval that is ((1 + r) / (1 - r)) ** (18 / n) times as
    wide, where n counts as 20 at least and 30 at most: more than the formula's square
    root, as few pairs tell r badly. The power is by simulation: with r = 0.7 the
    interval of 20 to 60 pairs then holds the truth in 97 of 100, and one of independent
    pairs seldom becomes wide.
    """
    n, averages = len(logs), sorted(map(sum, combinations_with_replacement(logs, 2)))
    out, half = _left_out(n), len(averages) // 2
    low, high = averages[out] / 2, averages[~out] / 2
    middle = (averages[half] + averages[~half]) / 4
    r = min(max(correlation(logs), 0.0), _MOST_CORRELATION)
    wider = ((1 + r) / (1 - r)) ** (18 / min(max(n, SERIES), 30))
    return middle + wider * (low - middle), middle, middle + wider * (high - middle)


def correlation(logs: Sequence[float]) -> float:
    """Return how alike neighbours are: the correlation of the ranks of successive ones.

    It is corrected for the bias of short series (F. H. C. Marriott and J. A. Pope,
    "Bias in the estimation of autocorrelations", Biometrika 41, 1954). Ranks keep a
    burst of noise from hiding or feigning it.
    """
    n = len(logs)
    ranks = [rank - (n + 1) for rank in doubled_ranks(logs)]
    whole = sum(rank * rank for rank in ranks)
    if not whole:
        return 0.0
    return (n * sum(a * b for a, b in pairwise(ranks)) / whole + 1) / (n - 3)


def too_alike(logs: Sequence[float]) -> bool:
    """Whether the pairs are too few for how alike neighbours are."""
    return len(logs) < SERIES and correlation(logs) >= 1 / math.sqrt(len(logs))


def wander(logs: Sequence[float]) -> float:
    """Return how far apart the medians of successive parts of one run lie.

    A run has up to six parts, of five samples at least. It tells how far the machine
    may have moved between two runs that were measured apart: a rule of thumb, as no
    statistic of two runs can tell the code from the hour.
    """
    many = min(6, len(logs) // 5)
    ends = [len(logs) * at // many for at in range(many + 1)]
    medians = [statistics.median(logs[a:b]) for a, b in pairwise(ends)]
    return max(medians) - min(medians)


def doubled_ranks(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each value, from 2; equal values share their mean."""
    ordered = sorted(values)
    first = {value: at for at, value in reversed(list(enumerate(ordered)))}
    last = {value: at for at, value in enumerate(ordered)}
    return [first[value] + last[value] + 2 for value in values]


@lru_cache(maxsize=512)
def _at_most(ranks: tuple[int, ...], most: int) -> float:
    """Return how likely ranks with fair coins as their weights sum to ``most``."""
    if len(ranks) > MOST_EXACT:
        # Sums lie as far apart as this: a continuity correction is half of that.
        step = math.gcd(*ranks)
        spread = math.sqrt(math.fsum(rank * rank for rank in ranks)) / 2
        return statistics.NormalDist(sum(ranks) / 2, spread).cdf(most + step / 2)
    width = len(ranks) + 1
    # One number is a polynomial: its digit s, of `width` bits, counts the choices
    # whose ranks sum to s. A shift by a rank adds that rank to every sum.
    counts = 1
    for rank in ranks:
        counts += counts << (rank * width)
    lowest = counts & ((1 << (most + 1) * width) - 1)
    # A number and the sum of its digits are the same modulo the base less 1.
    return math.ldexp(lowest % ((1 << width) - 1), -len(ranks))


@lru_cache(maxsize=64)
def _left_out(n: int) -> int:
    """Return how many of the averages of n pairs lie beyond each end."""
    ranks, tail = tuple(range(1, n + 1)), (1 - CONFIDENCE) / 2
    sums = range(n * (n + 1) // 2)
    return bisect_right(sums, tail, key=lambda most: _at_most(ranks, most)) - 1


def looks(most: int) -> tuple[int, ...]:
    """Return after how many pairs a bench of ``most`` looks: there, and at its end."""
    return (*(pairs for pairs in SPENT if pairs < most), most)


def level(pairs: int) -> float:
    """Return what the look after so many pairs may err."""
    passed = sum(share for at, share in SPENT.items() if at < pairs)
    return SPENT.get(pairs, LEVEL - passed)


def found(
    chances: Mapping[str, float], primary: Collection[str], allowed: float
) -> frozenset[str]:
    """Return the metrics whose tests find a change, all together at one level.

    ``chances`` are the tests' probabilities under no change. It is Holm's procedure
    with weights, which holds however the metrics depend on each other (S. Holm, "A
    simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6, 1979): of the tests left, the one that is smallest for its weight is
    compared with its share of the whole level. ``primary`` metrics have PRIMARY_SHARE
    of the weight together.
    """
    many = sum(metric in primary for metric in chances)
    few = len(chances) - many
    weights = {
        metric: PRIMARY_SHARE / many if metric in primary else (1 - PRIMARY_SHARE) / few
        for metric in chances
    }
    left, changed = sum(weights.values()), set[str]()
    for metric in sorted(chances, key=lambda name: chances[name] / weights[name]):
        if chances[metric] * left > allowed * weights[metric]:
            break
        changed.add(metric)
        left -= weights[metric]
    return frozenset(changed)
