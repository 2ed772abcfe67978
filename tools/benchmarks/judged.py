"""Pool measurements of honest variants: python -m tools.benchmarks.judged FOLDER.

FOLDER has measurement.json files, under any names ending in .json and in any folders,
of one day or of several. Rows are appended to results.jsonl.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from random import Random

from msgspec.structs import asdict

from runner.core.measurement import (
    MeasuredEntry,
    Measurement,
    MeasurementError,
    from_json,
)
from runner.judge import figures
from runner.judge.figures import Sample
from tools.benchmarks import rows

MOST_SPREAD = 0.005
RESAMPLES = 100
LEAST_RIGHT = 95
APART = 0.01
CLOSE = (0.005, 0.03)
"""How far apart, as a share, two variants are whose order is looked at."""

MOST_HELD_S = 30.0
SEED = 17

Rounds = list[list[float]]
"""The ratios of the rounds of each measurement of one variant."""


def main() -> None:
    """Read the folder that is named and append its rows."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tools.benchmarks.judged FOLDER")
    found = read(Path(sys.argv[1]))
    if not found:
        sys.exit(f"no measurement in {sys.argv[1]}")
    for measured in pooled(found):
        rows.keep(measured)


def read(folder: Path) -> list[Measurement]:
    """Return the timed measurements of a folder; name other files on stderr."""
    found = []
    for path in sorted(folder.rglob("*.json")):
        try:
            one = from_json(path.read_bytes())
        except MeasurementError as error:
            print(f"{path}: {error}", file=sys.stderr)
            continue
        if one.gpu is not None:
            found.append(one)
    return found


def pooled(found: Sequence[Measurement]) -> Iterator[dict[str, object]]:
    """Yield rows: refusals, and for each variant its spread, and its order."""
    yield _refusals(found)
    yield _held(found)
    # Two GPUs of one model differ by more than a GPU does from day to day.
    boards: dict[tuple[str, str, str, str], dict[str, Rounds]] = {}
    for one in found:
        board = (*_gpu(one), one.accuracy, one.milestone)
        variants = boards.setdefault(board, defaultdict(list))
        for entry in one.entries:
            if entry.accepted:
                variants[entry.variant].append(ratios(entry))
    for (gpu, uuid, accuracy, milestone), variants in boards.items():
        where = {"gpu": gpu, "uuid": uuid, "class": accuracy, "milestone": milestone}
        for variant, rounds in variants.items():
            if len(rounds) > 1:
                yield _spread(variant, rounds, where)
            faster = [[ratio * (1 - APART) for ratio in one] for one in rounds]
            name = f"{variant} and the same, {APART:.0%} faster"
            yield _order(name, rounds, faster, where)
        for (variant, ours), (other, its) in combinations(variants.items(), 2):
            if CLOSE[0] <= _apart(ours, its) <= CLOSE[1]:
                yield _order(f"{variant} and {other}", ours, its, where)


def ratios(entry: MeasuredEntry) -> list[float]:
    """Return the ratio of each round of an entry."""
    return figures.ratios([Sample(**asdict(sample)) for sample in entry.samples])


def _refusals(found: Sequence[Measurement]) -> dict[str, object]:
    entries = [entry for one in found for entry in one.entries]
    why = [f"{e.variant}: {text}" for e in entries for text in e.why]
    refused = sum(not entry.accepted for entry in entries)
    return rows.row(
        "refusals of honest variants",
        "none",
        refused == 0,
        measured=len(entries),
        refused=refused,
        why=why,
        gpus=sorted({_gpu(one)[0] for one in found}),
        days=_days(found),
        commits=sorted({one.host.commit for one in found if one.host}),
    )


def _held(found: Sequence[Measurement]) -> dict[str, object]:
    held = [one.held_s for one in found]
    return rows.row(
        "the GPU is held by a measurement",
        f"at most {MOST_HELD_S:.0f} s",
        max(held) <= MOST_HELD_S,
        median_s=statistics.median(held),
        max_s=max(held),
        n=len(held),
    )


def _gpu(measurement: Measurement) -> tuple[str, str]:
    gpu = measurement.gpu
    return (gpu.name, gpu.uuid) if gpu else ("", "")


def _days(found: Sequence[Measurement]) -> list[str]:
    """Return the days of the measurements, as far as they say."""
    return sorted({one.began[:10] for one in found if one.began})


def _spread(
    variant: str, rounds: Rounds, where: Mapping[str, object]
) -> dict[str, object]:
    medians = [statistics.median(one) for one in rounds]
    spread = figures.spread(medians)
    return rows.row(
        f"ratio of {variant}",
        f"an interquartile range of at most {MOST_SPREAD:.1%} of the median",
        spread <= MOST_SPREAD,
        **where,
        median=round(statistics.median(medians), 5),
        spread=round(spread, 5),
        rounds_spread=round(statistics.median(map(figures.spread, rounds)), 5),
        measurements=len(rounds),
    )


def _order(
    name: str, ours: Rounds, its: Rounds, where: Mapping[str, object]
) -> dict[str, object]:
    """Count resamples with the order of all measurements together.

    A resample draws a measurement of each, then as many rounds of it as it has.
    """
    random = Random(SEED)
    first = _middle(ours) < _middle(its)

    def drawn(rounds: Rounds) -> float:
        one = random.choice(rounds)
        return statistics.median(random.choices(one, k=len(one)))

    right = sum((drawn(ours) < drawn(its)) is first for _ in range(RESAMPLES))
    return rows.row(
        f"order of {name}",
        f"right in {LEAST_RIGHT} of {RESAMPLES} resamples",
        right >= LEAST_RIGHT,
        **where,
        apart=round(_apart(ours, its), 5),
        right=right,
        measurements=[len(ours), len(its)],
    )


def _middle(rounds: Rounds) -> float:
    return statistics.median(map(statistics.median, rounds))


def _apart(ours: Rounds, its: Rounds) -> float:
    one, other = _middle(ours), _middle(its)
    return abs(one - other) / max(one, other)


if __name__ == "__main__":
    main()
