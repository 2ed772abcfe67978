"""Read the course's lines: op times, correctness, accuracy, one inference a run.

An inference ends at its closing line (Correctness, Agreement, EvalMetric or Test
Accuracy). One that printed only op times, because its program died, ends at the next
start or at the end of the output. So `New Inference` may come before or after the
loading lines, or be missing. A line may hold several of the printed forms, as in a
document that joins lines, but nothing else.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from runner.core import Inference, Source
from runner.findings.search import OutputSearch
from runner.findings.sources import SourceReader
from runner.findings.units import UNSIGNED, keep, scaled

MOST_INFERENCES = 1000
"""The most that are kept; after that the newest replaces the last."""

MOST_TIMES = 1000
"""The most op times, and layer times, of one inference, kept in the same way."""

MOST_TIMES_IN_ALL = 50_000
"""The most of all inferences that are kept."""

MOST_COMPARED = 100
"""How many inferences above a report may repeat."""

_REAL = rf"{UNSIGNED}(?:[eE][+-]?[0-9]{{1,2}})?"
_TIME = re.compile(rf"(?P<of>Op|Layer) Time:\s*(?P<value>{_REAL})(?P<ms>\s*ms)?")
_LATE_TIME = re.compile(
    rf"Layer (?P<layer>[0-9]{{1,3}}) (?P<of>Layer|Op)Time:"
    rf"\s*(?P<value>{_REAL})(?P<ms>\s*ms)"
)
_MODEL = r"\s+Model:\s*(?P<model>[^\s*]{1,200})"
_CLASS = r"(?:\s+Class:\s*(?P<class>[a-z0-9]{1,20}))?"
_CLOSINGS = {
    "correctness": re.compile(
        rf"Correctness:\s*(?P<share>{_REAL})"
        rf"(?:(?:\s+Batch Size:\s*(?P<size>[0-9]{{1,9}}))?{_MODEL}{_CLASS})?"
    ),
    "agreement": re.compile(
        rf"Agreement:\s*(?P<share>{_REAL}){_MODEL}\s+\(synthetic\){_CLASS}"
    ),
    "accuracy": re.compile(
        r"(?:Test Accuracy:\s*|(?P<metric>EvalMetric:\s*\{'accuracy':\s*"
        rf"(?:(?:np|numpy)\.float(?:32|64)\()?))(?P<share>{_REAL})(?(metric)\)?\}})"
    ),
}
"""The line that ends an inference, by the figure that it has."""

_START = re.compile(
    r"New Inference|Loading .*\b(?P<data>data)\b|Loading model|Test batch size"
    r"|[✱*]{1,2}\s*Running\s|=*[0-9]*==\s*NVPROF is profiling"
)
_NEXT = re.compile(
    r"(?<!\s)\s++(?=(?:New Inference|Conv-[CG]PU==)(?:\s|$)"
    r"|(?:Op Time|Layer Time|Correctness|EvalMetric|Test Accuracy):)"
)
_SILENT = re.compile(r"New Inference|Conv-[CG]PU==")
_EMPHASIS = re.compile(r"\*\*([^*\s]+)\*\*")
_FIRST_LETTERS = frozenset("OCAETLN✱*=")


_Times = dict[str, list[float]]
"""Those of convolutions, "Op", and of whole layers, "Layer"."""


class InferenceReader:
    """A reader that groups the course's lines into inferences."""

    def __init__(self, sources: SourceReader, search: OutputSearch) -> None:
        self.found: list[Inference] = []
        self.left_out = 0
        self._sources, self._search = sources, search
        self._kept = 0
        self._times: _Times = {"Op": [], "Layer": []}
        self._quoted: list[float] = []
        self._synthetic = False
        self._late = False
        self._layer = 0
        self._started = False

    @property
    def busy(self) -> bool:
        """Whether the next line decides about a line already read."""
        return bool(self._quoted)

    def read(self, line: str) -> None:
        """Read one line, cleaned and stripped."""
        if line[:1] not in _FIRST_LETTERS:
            if line:
                self._quoted.clear()
        elif "**" in line and (plain := _EMPHASIS.sub(r"\1", line)) != line:
            self._quote(plain)
        else:
            self._quoted.clear()
            for part in _parts(line):
                self._plain(part)

    def close(self) -> None:
        """End the output; times without a closing line are an inference too."""
        one = self._timed(Inference(made_up=self._synthetic))
        times = one.op_times_s or one.layer_times_s
        if times and (self._started or not self._known(one)):
            self._add(one)

    def _plain(self, line: str) -> None:
        if (match := _TIME.fullmatch(line)) is not None:
            self._late = False
            self.left_out += keep(self._times[match["of"]], _seconds(match), MOST_TIMES)
        elif (match := _LATE_TIME.fullmatch(line)) is not None:
            self._add_late(int(match["layer"]), match["of"], _seconds(match))
        elif (end := _closing(line)) is not None:
            if self._synthetic:
                end = replace(end, correctness=None, accuracy=None)
            self._add(self._timed(end))
            self._late, self._layer = line.startswith("Test"), 0
            self._started = False
        elif (match := _START.match(line)) is not None:
            self._start(line, data=match["data"] is not None)
        else:
            self._search.unread(line)

    def _start(self, line: str, *, data: bool) -> None:
        self.close()
        self._late, self._layer, self._started = False, 0, True
        # A figure on synthetic images must not be taken for an accuracy.
        if data or line[0] in "✱*":
            self._synthetic = line.startswith("Loading synthetic")

    def _timed(self, end: Inference) -> Inference:
        """Return an inference with the times read so far, and forget these."""
        times, self._times = self._times, {"Op": [], "Layer": []}
        return _with_times(end, times)

    def _known(self, times: Inference) -> bool:
        """Whether a report repeats the times of an inference above."""
        op_times, layer_times = times.op_times_s, times.layer_times_s
        return any(
            op_times in ((), one.op_times_s) and layer_times in ((), one.layer_times_s)
            for one in self.found[-MOST_COMPARED:]
        )

    def _add(self, inference: Inference) -> None:
        self._search.add(inference)
        source, printed = self._sources.now(), inference.source.batch_size
        if printed is not None:
            source = replace(source, batch_size=printed)
        times = len(inference.op_times_s) + len(inference.layer_times_s)
        full = self._kept + times > MOST_TIMES_IN_ALL
        limit = max(len(self.found), 1) if full else MOST_INFERENCES
        left_out = keep(self.found, replace(inference, source=source), limit)
        self.left_out += left_out
        self._kept += 0 if left_out else times

    def _add_late(self, layer: int, of: str, value: float) -> None:
        """Add a row of Mini-DNN's table of timings, which follows its accuracy.

        A layer with no higher number than the last one begins the table of another
        run; the time of a whole layer is below its op time.
        """
        if of == "Op" and layer <= self._layer:
            self.close()
            if self._late:
                self._add(Inference())
        elif of == "Layer" and layer != self._layer:
            return
        self._layer = layer
        if not self._late:
            keep(self._times[of], value, MOST_TIMES)
            return
        last = self.found[-1]
        times = {"Op": [*last.op_times_s], "Layer": [*last.layer_times_s]}
        keep(times[of], value, MOST_TIMES)
        self.found[-1] = _with_times(last, times)

    def _quote(self, line: str) -> None:
        """Read an emphasised line of a report, if it quotes a whole inference.

        Programs print no asterisks; a part of an inference in bold repeats figures that
        are elsewhere in the report.
        """
        if (match := _TIME.fullmatch(line)) is not None and match["of"] == "Op":
            keep(self._quoted, _seconds(match), MOST_TIMES)
            return
        end = _closing(line)
        if end is not None and end.model and self._quoted:
            self._add(_with_times(end, {"Op": self._quoted, "Layer": []}))
        self._quoted.clear()


def _parts(line: str) -> list[str]:
    """Split a line that holds several of the printed forms and nothing else."""
    if not _NEXT.search(line):
        return [line]
    parts = _NEXT.split(line)
    printed = (
        _SILENT.fullmatch(part) or _TIME.fullmatch(part) or _closing(part)
        for part in parts
    )
    return parts if all(printed) else [line]


def _seconds(match: re.Match[str]) -> float:
    return scaled(match["value"], "ms" if match["ms"] else "s")


def _with_times(end: Inference, times: _Times) -> Inference:
    op_times, layer_times = map(tuple, (times["Op"], times["Layer"]))
    return replace(end, op_times_s=op_times, layer_times_s=layer_times)


def _closing(line: str) -> Inference | None:
    for figure, form in _CLOSINGS.items():
        match = form.fullmatch(line)
        if match is not None and (share := float(match["share"])) <= 1:
            known = match.groupdict()
            size = int(known["size"]) if known.get("size") else None
            shares: dict[str, Any] = {figure: share}
            return Inference(
                model=known.get("model"),
                accuracy_class=known.get("class") or "",
                source=Source(batch_size=size),
                **shares,
            )
    return None
