"""Combine rows of both layers, and judge whether the goals are reached."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from course.variants import FP32, HALF, TF32
from lab import trials
from lab.ledger import CONVOLUTION, FORWARD, SCRIPT, Row
from lab.measurement import FMA
from lab.trials import FEW, IMAGES, LAYERS, MAIN, SIZES

MODEL = "ece408"
FLAT = 1.08  # the largest ratio of times per image that counts as equal
NOT_MEASURED = "not measured"
OUR_LAYOUT = "NCHW"
NONE = "–"  # what tables have in place of a figure


@dataclass(frozen=True)
class Result:
    """The rows of one variant for all convolutions of an edition's model."""

    variant: str
    accuracy: str
    images: int
    rows: tuple[Row, ...]  # in the order of the layers

    @property
    def why(self) -> str | None:
        """Return what is wrong with it; None if every layer is correct."""
        reasons = [f"{r['layer']}: {r['why']}" for r in self.rows if not r["ok"]]
        missing = [name for name in LAYERS if name not in self.by_layer]
        reasons += [f"{name}: {NOT_MEASURED}" for name in missing]
        return "; ".join(reasons) or None

    @property
    def by_layer(self) -> dict[str, Row]:
        """Return the rows by layer."""
        return {row["layer"]: row for row in self.rows}

    @property
    def ms(self) -> float:
        """Return the sum of the medians."""
        return float(sum(row["median_ms"] for row in self.rows))

    @property
    def model_ms(self) -> float:
        """Return the sum of the layers' times by the model."""
        return sum(model_ms(row) for row in self.rows)

    @property
    def peer_ms(self) -> float | None:
        """Return the sum of cuDNN's medians, measured in turns with ours."""
        peers = [row["peer"] for row in self.rows]
        return sum(peer["median_ms"] for peer in peers) if all(peers) else None

    @property
    def times(self) -> float | None:
        """Return cuDNN's time divided by ours."""
        return self.peer_ms / self.ms if self.peer_ms else None

    @property
    def times_own(self) -> float | None:
        """Return cuDNN's time in our own layout divided by ours."""
        medians = [(row["peer"] or {}).get("medians_ms") for row in self.rows]
        if not all(medians):
            return None
        return float(sum(each[OUR_LAYOUT] for each in medians) / self.ms)

    @property
    def error(self) -> float:
        """Return the largest error."""
        return float(max(row["error"] for row in self.rows))

    @property
    def by_element(self) -> float:
        """Return the largest error of an element, beside its sum |x||k|."""
        return float(max(row["by_element"] for row in self.rows))

    @property
    def fma_only(self) -> bool:
        """Return whether it does not use tensor cores."""
        return all(row["arithmetic"] == FMA for row in self.rows)


def model_ms(row: Row) -> float:
    """Return the longer of the times of a row's bytes and of its multiplications."""
    return float(max(row["model_bytes_ms"], row["model_flops_ms"]))


def results(rows: Iterable[Row]) -> list[Result]:
    """Return the main edition's rows by variant, class and number of images.

    Those of numbers of a wide range are left out.
    """
    which = itemgetter("variant", "class", "images")
    chosen = [
        row
        for row in rows
        if (row["what"], row["edition"], row.get("model"), row.get("wide"))
        == (CONVOLUTION, MAIN, MODEL, False)
    ]
    chosen.sort(key=itemgetter("variant", "class", "images", "layer"))
    return [Result(*key, tuple(group)) for key, group in groupby(chosen, key=which)]


@dataclass(frozen=True, slots=True)
class Goal:
    """What a class should reach: the time of both layers, within its tolerance."""

    name: str
    accuracy: str
    ms: float | None
    times: float  # x cuDNN's speed in the same class and run
    images: int = IMAGES
    fma_only: bool = False


GOALS = (
    Goal("fp32", FP32, 1.12, 9),
    Goal("fp32, FMA only", FP32, 2.9, 3.7, fma_only=True),
    Goal("tf32", TF32, 0.95, 7.3),
    Goal("half", HALF, 0.82, 1),
    Goal("fp32, 100 images", FP32, 0.024, 1, images=100),
    Goal("fp32, 1000 images", FP32, None, 1, images=1000),
)
EDITION_TIMES = 3  # cuDNN's speed, on every layer
FORWARD_GOALS = (
    Goal(f"forward pass, fp32, {IMAGES} images", FP32, 0.95, 8),
    Goal(f"forward pass, fp32, {FEW} images", FP32, None, 3, FEW),
)
"""Their times are of the speed of PyTorch's fastest way."""
FOLDED = "folded"
SCRIPT_MS = 500


@dataclass(frozen=True, slots=True)
class Verdict:
    """A goal, what was reached, if measured, and in what that falls short."""

    name: str
    goal: str
    reached: str = NONE
    missed: Sequence[str] = (NOT_MEASURED,)

    @property
    def verdict(self) -> str:
        """Return whether what was reached is enough."""
        if self.reached == NONE:
            return NOT_MEASURED
        return f"missed: {', '.join(self.missed)}" if self.missed else "reached"


def fastest(found: Iterable[Result], goal: Goal) -> Result | None:
    """Return the fastest correct result for a goal."""
    fitting = [
        result
        for result in found
        if (result.accuracy, result.images) == (goal.accuracy, goal.images)
        and result.why is None
        and (result.fma_only or not goal.fma_only)
    ]
    return min(fitting, key=lambda result: result.ms, default=None)


def described(goal: Goal, peer: str = "cuDNN") -> str:
    """Return a goal as text."""
    times = f"{goal.times:g} times as fast as" if goal.times > 1 else "ahead of"
    most = f"at most {duration(goal.ms)}, " if goal.ms else ""
    return f"{most}{times} {peer}"


def missed(goal: Goal, ms: float, times: float | None) -> Iterator[str]:
    """Yield in what a time and its ratio to a peer's fall short of a goal."""
    if goal.ms and ms > goal.ms:
        yield f"{ms / goal.ms - 1:.0%} over the time"
    if times is None:
        yield "cuDNN is not measured"
    elif times < goal.times:
        yield f"{times:.2f} of {goal.times:g} times"


def judge(goal: Goal, found: Iterable[Result]) -> Verdict:
    """Compare the fastest correct result with a goal."""
    best = fastest(found, goal)
    if best is None:
        return Verdict(goal.name, described(goal))
    times = best.times
    own = best.times_own
    layout = (
        f" ({own:.2f} in {OUR_LAYOUT})" if own and own > 1.1 * (times or own) else ""
    )
    reached = f"{duration(best.ms)}, {ratio(times)}{layout}, by `{best.variant}`"
    short = list(missed(goal, best.ms, times))
    return Verdict(goal.name, described(goal), reached, short)


def judge_editions(rows: Sequence[Row]) -> Verdict:
    """Compare the fastest fp32 rows with cuDNN on every layer of every edition."""
    name = "fp32, every edition"
    goal = f"{EDITION_TIMES} times as fast as cuDNN on every layer"
    ahead = {
        (row["edition"], row["model"], row["layer"]): row["times_peer"]
        for row in per_layer(rows)
        if row["class"] == FP32 and row["times_peer"]
    }
    if not ahead:
        return Verdict(name, goal)
    layers = {(la.edition, la.model, la.name) for la in trials.all_layers()}
    missing = layers - ahead.keys()
    least = min(ahead, key=lambda key: ahead[key])
    reached = f"{len(ahead)} layers; least on {' '.join(least)}: {ratio(ahead[least])}"
    slow = sum(n < EDITION_TIMES for n in ahead.values())
    short = [f"less on {slow} of {len(ahead)} layers"] * bool(slow)
    short += [f"{len(missing)} layers are not measured"] * bool(missing)
    return Verdict(name, goal, reached, short)


def judge_sizes(found: Sequence[Result]) -> Verdict:
    """Compare the times per image of large batches with each other."""
    sizes = sorted({IMAGES, *SIZES} - {FEW})
    best = {n: fastest(found, Goal("", FP32, None, 0, n)) for n in sizes}
    each = {n: 1000 * r.ms / n for n, r in best.items() if r}
    name = "fp32, batch sizes"
    goal = f"the same time per image from 1000 on, within {FLAT - 1:.0%}"
    if len(each) < len(sizes):
        return Verdict(name, goal)
    apart = max(each.values()) / min(each.values())
    reached = ", ".join(f"{us:.4f} us at {n}" for n, us in each.items())
    return Verdict(name, goal, reached, [f"{apart - 1:.0%} apart"] * (apart > FLAT))


def judge_forward(goal: Goal, rows: Iterable[Row]) -> Verdict:
    """Compare the whole forward pass with PyTorch's."""
    wanted = described(goal, "PyTorch's fastest way")
    fitting = [
        row
        for row in rows
        if (row["what"], row["images"], row["ok"]) == (FORWARD, goal.images, True)
        # The folded pass computes another network than PyTorch.
        and FOLDED not in row["variant"]
    ]
    if not fitting:
        return Verdict(goal.name, wanted)
    best = min(fitting, key=itemgetter("median_ms"))
    ms, ahead, way = best["median_ms"], best["times_peer"], best["peer"]["way"]
    reached = f"{duration(ms)}, {ahead:.2f} times PyTorch ({way})"
    return Verdict(goal.name, wanted, reached, list(missed(goal, ms, ahead)))


def judge_script(rows: Iterable[Row]) -> Verdict:
    """Compare a script's whole time, with warm caches, with the goal."""
    name = f"final.py {IMAGES}"
    goal = f"at most {SCRIPT_MS / 1000:g} s to the last line"
    found = next((r for r in rows if r["what"] == SCRIPT and r["ok"]), None)
    if found is None:
        return Verdict(name, goal)
    reached = f"{found['median_ms'] / 1000:.2f} s, `{found['said']}`"
    over = found["median_ms"] / SCRIPT_MS - 1
    return Verdict(name, goal, reached, [f"{over:.0%} over the time"] * (over > 0))


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """Return the verdicts of all goals."""
    found = results(rows)
    return [
        *(judge(goal, found) for goal in GOALS),
        judge_sizes(found),
        judge_editions(rows),
        *(judge_forward(goal, rows) for goal in FORWARD_GOALS),
        judge_script(rows),
    ]


def per_layer(rows: Iterable[Row]) -> list[Row]:
    """Return the fastest correct row of each class, edition and layer."""
    right = [
        row
        for row in rows
        if (row["what"], row["images"], row["ok"], row.get("wide"))
        == (CONVOLUTION, IMAGES, True, False)
    ]
    slowest_first = sorted(right, key=itemgetter("median_ms"), reverse=True)
    which = itemgetter("class", "edition", "model", "layer")
    # The last of a key stays.
    return list({which(row): row for row in slowest_first}.values())


def duration(ms: float) -> str:
    """Format a time in ms or us."""
    return f"{ms:.3g} ms" if ms >= 0.1 else f"{1000 * ms:.3g} us"


def ratio(times: float | None) -> str:
    """Format a ratio to cuDNN's time."""
    return NONE if times is None else f"{times:.2f} times cuDNN"
