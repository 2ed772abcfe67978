"""The measurement of one entry of a plan: a player, its calls, and the outcome."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any

from runner.judge import acceptance, channel, figures
from runner.judge.acceptance import Conditions, SiteReference, Wrong
from runner.judge.bench import Bench, Placed, Seeds
from runner.judge.figures import Rates, Rules, Sample
from runner.judge.kinds import PLAIN, Inputs, wide
from runner.judge.sizes import Layer

MOST_NUMBER = 1e9  # milliseconds or MHz
LONGEST_CALL_S = 10.0
LONGEST_START_S = 30.0
"""How long the player may take to start and to load the kernels."""

ALONE_ROUNDS = 5
ENTRY_S = 20.0
"""After so many seconds an entry gets no more calls."""

FAULTS = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": "an illegal address",
    "CUDA_ERROR_MISALIGNED_ADDRESS": "a misaligned address",
    "CUDA_ERROR_LAUNCH_FAILED": "a fault such as a trap or a stack overflow",
    "CUDA_ERROR_ASSERT": "an assertion",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "an illegal instruction, such as a trap",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "too many registers or too much memory",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "no code for this GPU",
    "CUDA_ERROR_INVALID_IMAGE": "what is no machine code",
    "CUDA_ERROR_NOT_FOUND": "a kernel or variable that is not in the compiled file",
    "CUDA_ERROR_INVALID_VALUE": "a launch that the driver refuses",
    "CUDA_ERROR_OUT_OF_MEMORY": "too much memory",
}


class PlayerFaultError(Exception):
    """The team's kernels failed; the text says how."""


class JudgeError(Exception):
    """The judge cannot measure on this machine; the text says why."""


@dataclass
class EntryLog:
    """What was seen of one entry."""

    variant: str
    samples: list[Sample] = field(default_factory=list)
    empty_ms: list[float] = field(default_factory=list)
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
    """What all entries of a job share."""

    source: Path
    bench: Bench
    rules: Rules
    accuracy: str
    site: SiteReference | None
    rates: Rates
    throttled: Callable[[], bool]
    others: Callable[[], int]
    celsius: float | None


class PlayerProcess:
    """The process with the team's kernels."""

    def __init__(
        self, setting: TrialSetup, convolutions: Sequence[Mapping[str, Any]]
    ) -> None:
        ours, its = channel.pair()
        self._judge = ours
        try:
            self._process = _spawn(its)
        finally:
            its.close()
        try:
            self._start(setting, convolutions)
        except BaseException:
            self.close()
            raise

    def _start(
        self, setting: TrialSetup, convolutions: Sequence[Mapping[str, Any]]
    ) -> None:
        bench = setting.bench
        compiled = setting.source / "compiled"
        units = sorted({each["unit"] for each in convolutions})
        setup = {
            "cubins": [str(compiled / f"{unit}.cubin") for unit in units],
            "convolutions": [
                {**each, "unit": units.index(each["unit"])} for each in convolutions
            ],
            "clocks": str(Path(__file__).with_name("clocks.ptx")),
            "regions": [bench.read_only.size, bench.shared.size],
        }
        descriptors = bench.descriptors()
        try:
            self._send(setup, descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        self._answer(LONGEST_START_S, f"load within {LONGEST_START_S:g} s")

    def _send(self, message: channel.Message, descriptors: Sequence[int] = ()) -> None:
        try:
            channel.send(self._judge, message, descriptors)
        except channel.ChannelError as error:
            raise PlayerFaultError(str(error)) from None

    def call(self, layer: int, placed: Placed, *, empty: bool) -> Mapping[str, float]:
        """Have a layer computed, or nothing; return times as numbers."""
        offsets = dict(placed.offsets)
        call = {"convolution": layer, "offsets": offsets, "empty": empty}
        self._send(call)
        self._answer(LONGEST_CALL_S, "answer in time")
        began = perf_counter()
        self._send({"go": True})
        channel.spin(self._judge, LONGEST_CALL_S)
        wall_ms = 1000 * (perf_counter() - began)
        self._answer(0, f"end within {LONGEST_CALL_S:g} s")
        answer = self._answer(LONGEST_CALL_S, "answer in time")
        return {**_numbers(answer, ("ms", "stamp_ms", "sm_mhz")), "wall_ms": wall_ms}

    def _answer(self, timeout_s: float, what: str) -> channel.Message:
        try:
            answer, _ = channel.receive(self._judge, timeout_s)
        except channel.LateError:
            raise PlayerFaultError(f"they did not {what}") from None
        except channel.ChannelError:
            raise PlayerFaultError("their process ended") from None
        if name := answer.get("fault"):
            raise PlayerFaultError(FAULTS.get(str(name), str(name)[:100]))
        if failed := answer.get("failed"):
            raise JudgeError(str(failed)[:500])
        return answer

    def close(self) -> None:
        """Kill the process."""
        self._judge.close()
        self._process.kill()
        self._process.wait()


def _spawn(its: socket.socket) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "CUDA_MODULE_LOADING": "EAGER",
        "CUDA_CACHE_DISABLE": "1",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "runner.judge.player", str(its.fileno())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(its.fileno(),),
        env=environment,
        start_new_session=True,
    )


def _numbers(answer: channel.Message, names: Sequence[str]) -> dict[str, float]:
    found = {}
    for name in names:
        value = answer.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise PlayerFaultError("their process sends what is no answer")
        if not 0 <= value <= MOST_NUMBER:  # nor is NaN
            raise PlayerFaultError(f"{name} of a call cannot be {str(value)[:20]}")
        if not 0 <= value < LONGEST_CALL_S * 1e6:  # also NaN
            raise PlayerFaultError("their process sends what is no answer")
        found[name] = float(value)
    return found


def layer_of(convolution: Mapping[str, Any]) -> Layer:
    """Return a convolution's sizes."""
    shape = tuple(convolution["shape"][name] for name in "BMCHWK")
    halves = convolution["storage"] == "float16"
    return Layer(convolution["name"], shape, halves, convolution["scratch"])


def measure(
    setting: TrialSetup, entry: Mapping[str, Any], seeds: Seeds
) -> dict[str, Any]:
    """Measure an entry; return its part of measurement.json."""
    found = EntryLog(entry["variant"])
    convolutions = entry["convolutions"]
    layers = [layer_of(each) for each in convolutions]
    try:
        with _player(setting, convolutions) as player:
            _Trial(setting, layers, player, seeds, found).run()
    except PlayerFaultError as fault:
        found.fault = str(fault)
    return _outcome(setting, layers, found, seeds)


@contextmanager
def _player(
    setting: TrialSetup, convolutions: Sequence[Mapping[str, Any]]
) -> Iterator[PlayerProcess]:
    player = PlayerProcess(setting, convolutions)
    try:
        yield player
    finally:
        player.close()


class _Trial:
    """The calls of one entry."""

    def __init__(
        self,
        setting: TrialSetup,
        layers: Sequence[Layer],
        player: PlayerProcess,
        seeds: Seeds,
        found: EntryLog,
    ) -> None:
        self._setting, self._layers, self._player = setting, layers, player
        self._seeds, self._found = seeds, found
        self._began = perf_counter()

    def run(self) -> None:
        """Make all calls, up to the first wrong result."""
        rules, found = self._setting.rules, self._found
        for _ in range(ALONE_ROUNDS):
            times = [self._setting.bench.reference(layer)[0] for layer in self._layers]
            found.alone_ms.append(sum(times))
        # What is checked for other inputs comes at times that nobody can foresee.
        others = [*wide(self._storage)]
        self._seeds.random.shuffle(others)
        for number in count(-rules.warm_rounds):
            if number >= 0 and self._seeds.random.random() < 0.3 and others:
                self._other(others.pop())
            if found.wrong or not self._round(number):
                return
            spent = perf_counter() - self._began
            if figures.enough(rules, self._timely(), spent) or spent > ENTRY_S:
                break
        while others and found.wrong is None:
            self._other(others.pop())

    @property
    def _storage(self) -> str:
        return "float16" if self._layers[0].halves else "float32"

    def _timely(self) -> list[Sample]:
        found = self._found
        return figures.timely(self._setting.rules, found.samples, found.empty_ms)

    def _round(self, number: int) -> bool:
        """Take a sample of each layer; return whether all was right."""
        for n, layer in enumerate(self._layers):
            reference_first = self._seeds.random.random() < 0.5
            reference = self._reference(layer) if reference_first else (0.0, 0.0)
            placed = self._setting.bench.place(layer, PLAIN, self._seeds)
            times = self._player.call(n, placed, empty=False)
            throttled = self._setting.throttled()
            if not self._right(layer, placed):
                return False
            if number >= 0:
                self._found.throttled.append(throttled)
            if not reference_first:
                reference = self._reference(layer)
            empty = self._player.call(n, placed, empty=True)
            if number < 0:
                continue
            self._found.empty_ms.append(empty["wall_ms"])
            self._found.samples.append(
                Sample(
                    layer=layer.name,
                    round=number,
                    reference_ms=reference[0],
                    reference_mhz=reference[1],
                    **times,
                )
            )
        return True

    def _reference(self, layer: Layer) -> tuple[float, float]:
        found = self._setting.bench.reference(layer)
        self._found.reference_throttled.append(self._setting.throttled())
        return found

    def _other(self, inputs: Inputs) -> None:
        """Check every layer on inputs of another kind."""
        for n, layer in enumerate(self._layers):
            placed = self._setting.bench.place(layer, inputs, self._seeds)
            self._player.call(n, placed, empty=False)
            if not self._right(layer, placed):
                return

    def _right(self, layer: Layer, placed: Placed) -> bool:
        found = self._found
        bench, accuracy = self._setting.bench, self._setting.accuracy
        checked = bench.check(layer, placed, accuracy, found.calls)
        found.calls += 1
        found.values += checked.values
        found.wrong = found.wrong or checked.wrong
        if placed.inputs is PLAIN:
            most = max(found.errors.get(layer.name, 0.0), checked.error)
            found.errors[layer.name] = most
        return checked.wrong is None


def _outcome(
    setting: TrialSetup, layers: Sequence[Layer], found: EntryLog, seeds: Seeds
) -> dict[str, Any]:
    rules, site = setting.rules, setting.site
    samples = figures.timely(rules, found.samples, found.empty_ms)
    rounds = len(figures.whole_rounds(found.samples))
    floors = {la.name: _floor(setting.rates, la) for la in layers}
    conditions = Conditions(
        wrong=found.wrong,
        fault=found.fault,
        empty_ms=found.empty_ms,
        floors=floors,
        site=site,
        alone_ms=found.alone_ms,
        late_rounds=rounds - len(figures.whole_rounds(samples)),
        others=setting.others(),
        celsius=setting.celsius,
        throttled=_share(found.throttled),
        reference_throttled=_share(found.reference_throttled),
    )
    why = acceptance.why(rules, samples, conditions)
    score = figures.score(samples, seeds.next(), site.ms if site else None)
    table = figures.layers(samples, floors, found.errors)
    return {
        "variant": found.variant,
        "accepted": not why,
        "why": list(why),
        "correct": found.wrong is None and not found.fault,
        "fault": found.fault,
        "wrong": found.wrong.to_json() if found.wrong else None,
        "checked": {"calls": found.calls, "values": found.values},
        "error": max(found.errors.values(), default=0.0),
        **(figures.plain(score) if score else EMPTY_SCORE),  # type: ignore[dict-item]
        "late_rounds": conditions.late_rounds,
        "layers": figures.plain(table),
        "samples": figures.plain(samples),
    }


EMPTY_SCORE = {"ms": None, "ratio": None, "interval": None, "score_ms": None}


def _floor(rates: Rates, layer: Layer) -> float:
    y, _, _ = layer.counts
    return figures.floor_ms(rates, sum(layer.inputs.values()), 4 * y, layer.products)


def _share(seen: Sequence[bool]) -> float:
    return sum(seen) / len(seen) if seen else 0.0
