"""The measurement of one entry of a plan: a player, its calls, and the outcome."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any

from runner.judge import acceptance, figures, wrong
from runner.judge.acceptance import Conditions, SiteReference
from runner.judge.bench import Bench, Placed, Seeds
from runner.judge.figures import Rates, Rules, Sample
from runner.judge.kinds import PLAIN, Inputs, wide
from runner.judge.player_process import PlayerFaultError, PlayerProcess
from runner.judge.sizes import Layer
from runner.judge.wrong import Wrong

ALONE_ROUNDS = 5
ENTRY_S, JOB_S = 20.0, 60.0
"""After so many seconds an entry, or all of a job, gets no more calls."""


class TimeOverError(Exception):
    """An entry gets no more calls."""


@dataclass
class EntryLog:
    """What was seen of one entry; ``unchecked`` counts kinds of inputs."""

    variant: str
    unchecked: int
    samples: list[Sample] = field(default_factory=list)
    mhz: dict[str, list[float]] = field(default_factory=dict)
    alone_ms: list[float] = field(default_factory=list)
    wrong: Wrong | None = None
    fault: str = ""
    calls: int = 0
    values: int = 0
    errors: dict[str, float] = field(default_factory=dict)
    throttled: list[bool] = field(default_factory=list)
    reference_throttled: list[bool] = field(default_factory=list)


@dataclass(frozen=True)
class TrialSetup:
    """What all entries of a job share; ``ends`` is a moment of ``perf_counter``."""

    source: Path
    bench: Bench
    rules: Rules
    accuracy: str
    site: SiteReference | None
    rates: Rates
    throttled: Callable[[], bool]
    others: Callable[[], int]
    celsius: float | None
    ends: float


def layer_of(convolution: Mapping[str, Any]) -> Layer:
    """Return a convolution's sizes."""
    shape = tuple(convolution["shape"][name] for name in "BMCHWK")
    halves = convolution["storage"] == "float16"
    return Layer(convolution["name"], shape, halves, convolution["scratch"])


def reference_ms(bench: Bench, layers: Sequence[Layer]) -> float:
    """Return the median time of a round of references, warmed up."""
    times = [sum(bench.reference(one)[0] for one in layers) for _ in range(40)]
    return statistics.median(times[20:])


def measure(
    setting: TrialSetup, entry: Mapping[str, Any], seeds: Seeds
) -> dict[str, Any]:
    """Measure an entry; return its part of measurement.json.

    It gets no more calls ENTRY_S after its player is started, nor after the setting's
    end; then what was not checked is a reason to refuse it. Raises JudgeError.
    """
    convolutions = entry["convolutions"]
    layers = [layer_of(each) for each in convolutions]
    found = EntryLog(entry["variant"], len(wide(_storage(layers))))
    ends = min(setting.ends, perf_counter() + ENTRY_S)
    try:
        if perf_counter() < ends:
            its = setting.source, setting.bench, convolutions
            with closing(PlayerProcess(*its)) as player:
                _Trial(setting, layers, player, seeds, found, ends).run()
    except PlayerFaultError as fault:
        found.fault = str(fault)
    return _outcome(setting, layers, found)


class _Trial:
    """The calls of one entry."""

    def __init__(
        self,
        setting: TrialSetup,
        layers: Sequence[Layer],
        player: PlayerProcess,
        seeds: Seeds,
        found: EntryLog,
        ends: float,
    ) -> None:
        self._setting, self._layers, self._player = setting, layers, player
        self._seeds, self._found = seeds, found
        self._began, self._ends = perf_counter(), ends
        self._seen = b""

    def run(self) -> None:
        """Make all calls, up to the first wrong result or the entry's end."""
        with suppress(TimeOverError):
            self._calls()

    def _calls(self) -> None:
        rules, found = self._setting.rules, self._found
        for _ in range(ALONE_ROUNDS):
            times = [self._setting.bench.reference(layer)[0] for layer in self._layers]
            found.alone_ms.append(sum(times))
        # What is checked for other inputs comes at times that nobody can foresee.
        others = [*wide(_storage(self._layers))]
        self._seeds.random.shuffle(others)
        for number in count(-rules.warm_rounds):
            if number >= 0 and self._seeds.random.random() < 0.3 and others:
                self._other(others.pop())
            if found.wrong or not self._round(number):
                return
            spent_s = perf_counter() - self._began
            if number + 1 >= rules.rounds or spent_s >= rules.longest_s:
                break
        while others and found.wrong is None:
            self._other(others.pop())

    def _call(self, n: int, placed: Placed, *, stamped: bool) -> float:
        if perf_counter() > self._ends:
            raise TimeOverError
        layer = self._layers[n]
        look = partial(self._setting.bench.look, layer, placed)
        done = self._player.call(n, placed.offsets, look, stamped=stamped)
        ms, self._seen, mhz = done
        if stamped:
            self._found.mhz.setdefault(layer.name, []).append(mhz)
        return ms

    def _round(self, number: int) -> bool:
        """Take a sample of each layer; return whether all was right."""
        found = self._found
        for n, layer in enumerate(self._layers):
            reference_first = self._seeds.random.random() < 0.5
            reference = self._reference(layer) if reference_first else (0.0, 0.0)
            placed = self._setting.bench.place(layer, PLAIN, self._seeds)
            # Stamps take time, so that a call with them is no sample.
            ms = self._call(n, placed, stamped=number < 0)
            throttled = self._setting.throttled()
            if not self._right(layer, placed):
                return False
            if not reference_first:
                reference = self._reference(layer)
            if number < 0:
                continue
            found.throttled.append(throttled)
            found.samples.append(Sample(layer.name, number, ms, *reference))
        return True

    def _reference(self, layer: Layer) -> tuple[float, float]:
        found = self._setting.bench.reference(layer)
        self._found.reference_throttled.append(self._setting.throttled())
        return found

    def _other(self, inputs: Inputs) -> None:
        """Check every layer on inputs of another kind."""
        for n, layer in enumerate(self._layers):
            placed = self._setting.bench.place(layer, inputs, self._seeds)
            self._call(n, placed, stamped=True)
            if not self._right(layer, placed):
                return
        self._found.unchecked -= 1

    def _right(self, layer: Layer, placed: Placed) -> bool:
        found = self._found
        bench, accuracy = self._setting.bench, self._setting.accuracy
        checked = bench.check(layer, placed, accuracy, found.calls)
        late = bench.look(layer, placed) != self._seen
        if late and checked.wrong is None:
            checked = replace(checked, wrong=wrong.late(found.calls, layer.name))
        found.calls += 1
        found.values += checked.values
        found.wrong = found.wrong or checked.wrong
        if placed.inputs is PLAIN:
            most = max(found.errors.get(layer.name, 0.0), checked.error)
            found.errors[layer.name] = most
        return checked.wrong is None


def _outcome(
    setting: TrialSetup, layers: Sequence[Layer], found: EntryLog
) -> dict[str, Any]:
    rules, site = setting.rules, setting.site
    samples = found.samples
    floors = {la.name: _floor(setting.rates, la) for la in layers}
    conditions = Conditions(
        wrong=found.wrong,
        fault=found.fault,
        unchecked=_unchecked(found),
        floors=floors,
        site=site,
        alone_ms=found.alone_ms,
        others=setting.others(),
        celsius=setting.celsius,
        throttled=_share(found.throttled),
        reference_throttled=_share(found.reference_throttled),
    )
    why = acceptance.why(rules, samples, conditions)
    score = figures.score(samples, site.ms if site else None)
    table = figures.layers(samples, found.mhz, floors, found.errors)
    return {
        "variant": found.variant,
        "accepted": not why,
        "why": list(why),
        "correct": not (found.wrong or found.fault or found.unchecked),
        "fault": found.fault,
        "wrong": found.wrong.to_json() if found.wrong else None,
        "checked": {"calls": found.calls, "values": found.values},
        "error": max(found.errors.values(), default=0.0),
        **(figures.plain(score) if score else EMPTY_SCORE),  # type: ignore[dict-item]
        "layers": figures.plain(table),
        "samples": figures.plain(samples),
    }


EMPTY_SCORE = {"ms": None, "ratio": None, "interval": None, "score_ms": None}


def _storage(layers: Sequence[Layer]) -> str:
    return "float16" if layers[0].halves else "float32"


def _unchecked(found: EntryLog) -> str:
    if not found.unchecked:
        return ""
    over = f"the {ENTRY_S:g} s of an entry, or the {JOB_S:g} s of all, were over"
    if not found.calls:
        return f"nothing was measured: {over}"
    return f"{found.unchecked} kinds of inputs were not checked: {over}"


def _floor(rates: Rates, layer: Layer) -> float:
    y, _, _ = layer.counts
    return figures.floor_ms(rates, sum(layer.inputs.values()), 4 * y, layer.products)


def _share(seen: Sequence[bool]) -> float:
    return sum(seen) / len(seen) if seen else 0.0
