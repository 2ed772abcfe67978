"""A run's samples: what each of its rounds measured, by the name of the metric.

    op_time[KEY]        the sum of the op times that a command printed, seconds
    correctness[KEY]    the least correctness that it printed
    command[KEY].wall   how long it took, seconds
    command[KEY].cpu    its processor time, seconds
    kernel[KEY].NAME    GPU time of one kernel, from a profiler's table, seconds
    peak_memory[KEY]    the most memory that GNU time saw, bytes
    peak_memory         the most that the whole run used, bytes; one value a run

KEY is the command's name, or its number from 1 where it has none of its own.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from runner.core import CommandRecord, Findings, Outcome, RunRecord
from runner.core.quantities import brief
from runner.core.samples import MOST_ROUNDS, MOST_SECONDS
from runner.figures import table
from runner.figures.table import FigureKind
from runner.findings.tables import GPU, KERNELS

Samples = Mapping[str, tuple[float, ...]]
"""The values of each metric, one a round, in order; nan where a round has none."""

MOST_KERNELS = 60
"""Of each command those that take most of the time."""

MOST = 1e18
"""What is no smaller is no measurement; sums of thousands of values stay finite."""

PEAK_MEMORY = "peak_memory"
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
    printed = tuple(table.of_command(command, layers=False))

    def values(kind: FigureKind) -> list[float]:
        return [one.value for one in printed if one.figure is kind]

    times = values(FigureKind.OP_TIME)
    if times and min(times) >= 0 and max(times) < MOST_SECONDS:
        yield f"op_time[{key}]", math.fsum(times)
    for kind, metric, one_of in (
        (FigureKind.CORRECTNESS, f"correctness[{key}]", min),
        (FigureKind.WALL, f"command[{key}].wall", max),
        (FigureKind.CPU, f"command[{key}].cpu", max),
        (FigureKind.MEMORY, f"{PEAK_MEMORY}[{key}]", max),
    ):
        if found := values(kind):
            yield metric, one_of(found)
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


_SIZES = (("B", 1.0), ("KiB", 2.0**10), ("MiB", 2.0**20), ("GiB", 2.0**30))


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
