"""The course's printed lines: op times, correctness, accuracy, one inference a run.

An inference ends at its closing line (Correctness, Agreement, EvalMetric or Test
Accuracy). One that only printed op times, because its program died, ends at the next
start or at the end of output. So `New Inference` may stand before or after the
loading lines, or nowhere.
"""

from __future__ import annotations

import math
import re

from runner.core import Inference
from runner.findings.units import UNSIGNED, keep, scaled

MOST_INFERENCES = 1000
"""How many are kept; past it the last one replaces its predecessor."""

MOST_OP_TIMES = 1000
"""How many op times one inference may hold, kept in the same way."""

_REAL = rf"{UNSIGNED}(?:[eE][+-]?[0-9]{{1,3}})?"
_OP_TIME = re.compile(rf"Op Time:\s*(?P<value>{_REAL})(?P<ms>\s*ms)?")
_LATE_OP_TIME = re.compile(
    rf"Layer (?P<layer>[0-9]{{1,3}}) OpTime:\s*(?P<value>{_REAL})(?P<ms>\s*ms)"
)
_CLOSING = re.compile(
    rf"Correctness:\s*(?P<correctness>{_REAL})"
    rf"(?:(?:\s+Batch Size:\s*[0-9]+)?\s+Model:\s*(?P<model>[^\s*]{{1,200}}))?"
    rf"|Agreement:\s*(?P<agreement>{_REAL})\s+Model:\s*(?P<made_up>[^\s*]{{1,200}})"
    rf"\s+\(synthetic\)"
    rf"|EvalMetric:\s*\{{'accuracy':\s*(?:(?:np|numpy)\.float(?:32|64)\()?"
    rf"(?P<metric>{_REAL})\)?\}}"
    rf"|Test Accuracy:\s*(?P<test>{_REAL})"
)
_START = re.compile(
    r"New Inference|Loading .*\b(?P<data>data)\b|Loading model|Test batch size"
    r"|[✱*]{1,2}\s*Running\s|=*[0-9]*==\s*NVPROF is profiling"
)
_EMPHASIS = re.compile(r"\*\*([^*\s]+)\*\*")
_FIRST_LETTERS = frozenset("OCAETLN✱*=")


def op_time_sum(inference: Inference) -> float:
    """Give the ranking figure: the sum of the op times, in seconds."""
    return math.fsum(inference.op_times_s)


class InferenceReader:
    """Groups the course's lines into inferences."""

    def __init__(self) -> None:
        self.found: list[Inference] = []
        self._op_times: list[float] = []
        self._quoted: list[float] = []
        self._synthetic = False
        self._late = False
        self._layer = 0
        self._started = False

    @property
    def busy(self) -> bool:
        """Whether the very next line decides about one already seen."""
        return bool(self._quoted)

    def read(self, line: str) -> None:
        """Take one clean line, stripped."""
        if line[:1] not in _FIRST_LETTERS:
            if line:
                self._quoted.clear()
        elif "**" in line and (plain := _EMPHASIS.sub(r"\1", line)) != line:
            self._quote(plain)
        else:
            self._quoted.clear()
            self._plain(line)

    def close(self) -> None:
        """End the output: what has op times only is an inference as well."""
        op_times = tuple(self._op_times)
        self._op_times.clear()
        if op_times and (self._started or not self._known(op_times)):
            self._add(Inference(op_times_s=op_times, made_up=self._synthetic))

    def _plain(self, line: str) -> None:
        if (value := op_time(line)) is not None:
            self._late = False
            keep(self._op_times, value, MOST_OP_TIMES)
        elif (timing := _late_op_time(line)) is not None:
            self._add_late(*timing)
        elif (end := _closing(line)) is not None:
            if self._synthetic:
                end = Inference(model=end.model, agreement=end.agreement, made_up=True)
            self._add(_with_op_times(end, self._op_times))
            self._op_times.clear()
            self._late, self._layer = line.startswith("Test"), 0
            self._started = False
        elif (match := _START.match(line)) is not None:
            self._start(line, data=match["data"] is not None)

    def _start(self, line: str, *, data: bool) -> None:
        self.close()
        self._late, self._layer, self._started = False, 0, True
        # Nothing said on made-up images may pass for an accuracy.
        if data or line[0] in "✱*":
            self._synthetic = line.startswith("Loading synthetic")

    def _known(self, op_times: tuple[float, ...]) -> bool:
        """Whether a report lists the op times of an inference above once more."""
        return any(one.op_times_s == op_times for one in self.found)

    def _add(self, inference: Inference) -> None:
        keep(self.found, inference, MOST_INFERENCES)

    def _add_late(self, layer: int, value: float) -> None:
        """Mini-DNN's table of timings follows its accuracy.

        A layer that is not beyond the last one begins another run's table.
        """
        if layer <= self._layer:
            self.close()
            if self._late:
                self._add(Inference())
        self._layer = layer
        if not self._late:
            keep(self._op_times, value, MOST_OP_TIMES)
        elif len(self.found[-1].op_times_s) < MOST_OP_TIMES:
            last = self.found[-1]
            self.found[-1] = _with_op_times(last, [*last.op_times_s, value])

    def _quote(self, line: str) -> None:
        """A report's emphasised lines count when they quote a whole inference.

        A program prints no asterisks; halves of it in bold repeat what stands, or
        will stand, elsewhere.
        """
        if (value := op_time(line)) is not None:
            keep(self._quoted, value, MOST_OP_TIMES)
            return
        end = _closing(line)
        if end is not None and end.model and self._quoted:
            self._add(_with_op_times(end, self._quoted))
        self._quoted.clear()


def op_time(line: str) -> float | None:
    """Read an ``Op Time`` line as seconds; None where it is something else."""
    return _duration(_OP_TIME.fullmatch(line))


def _late_op_time(line: str) -> tuple[int, float] | None:
    match = _LATE_OP_TIME.fullmatch(line)
    value = _duration(match)
    return None if match is None or value is None else (int(match["layer"]), value)


def _duration(match: re.Match[str] | None) -> float | None:
    if match is None:
        return None
    value = scaled(match["value"], "ms" if match["ms"] else "s")
    return value if math.isfinite(value) else None


def _with_op_times(end: Inference, op_times: list[float]) -> Inference:
    return Inference(
        tuple(op_times), end.correctness, end.model, end.accuracy, end.agreement
    )


def _closing(line: str) -> Inference | None:
    match = _CLOSING.fullmatch(line)
    if match is None:
        return None
    share = next(
        float(text)
        for name in ("correctness", "agreement", "metric", "test")
        if (text := match[name]) is not None
    )
    if not 0 <= share <= 1:
        return None
    if match["correctness"]:
        return Inference(correctness=share, model=match["model"])
    if match["agreement"]:
        return Inference(agreement=share, model=match["made_up"])
    return Inference(accuracy=share)
