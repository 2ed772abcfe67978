"""What the figures of a run amount to, each answer in a sentence.

Is it right, for each model; how fast is the best, and how many times as fast as the
first version on the GPU and as the library's; which step brought what; what bounds the
best kernel, and what to try next.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from runner.core.milestone import ReportedKind
from runner.core.quantities import brief, size
from runner.figures.analysis import (
    LATENCY_BELOW,
    KernelAnalysis,
    KernelBound,
    LayerAnalysis,
)
from runner.figures.peaks import MEMORY, Occupancy
from runner.figures.table import NetworkFigures
from runner.report.blocks import (
    Bar,
    BarChart,
    Paragraph,
    Part,
    Picture,
    Table,
    filled,
)
from runner.report.document.nouns import Report, RunSummary
from runner.report.phrases import shortened

MOST_RUNS, MOST_MODELS = 4, 4
"""So many have conclusions."""

MOST_NAMED = 6
LONGEST_NAME = 48
MUCH = 50.0
"""Percent of the kernels' time; what takes more is worth a sentence."""

_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9-]")
_CONVOLUTION = re.compile(r"conv|fprop|winograd|xmma|cutlass", re.IGNORECASE)
"""Names of kernels of libraries that compute a convolution."""


def parts(report: Report) -> Iterator[Part]:
    """Yield the answers of each run."""
    for run in report.runs[:MOST_RUNS]:
        name = run.tag or run.run
        of = f"{name}: " if len(report.runs) > 1 else ""
        yield Paragraph(of + _right(report, run), strong="Is it right?")
        models = dict.fromkeys(one.model for one in _timed(report, run.run))
        for model in list(models)[:MOST_MODELS]:
            named = f"{of}{model}: " if len(models) > 1 else of
            yield from _Answers(report, run, model, named).parts()
        if not models:
            text = "Not known: no command printed Op Times without a profiler."
            yield Paragraph(of + text, strong="How fast is it?")


def best_profiles(report: Report) -> list[tuple[str, str]]:
    """Return the profiles of the best of each run and model, by run and file."""
    found = []
    for run in report.runs[:MOST_RUNS]:
        models = dict.fromkeys(one.model for one in _timed(report, run.run))
        for model in list(models)[:MOST_MODELS]:
            best = _Answers(report, run, model, "")
            found += [(run.run, path) for path in sorted(best.profiles())]
    return list(dict.fromkeys(found))


def _timed(report: Report, run: str) -> list[NetworkFigures]:
    """Return the networks of a run whose Op Times count."""
    return [
        one
        for one in report.networks
        if one.run == run and one.op_time_s and not one.under
    ]


def _right(report: Report, run: RunSummary) -> str:
    """Return what the networks got right, model by model."""
    found: dict[str, dict[int | None, dict[str, list[str]]]] = {}
    shares: dict[tuple[str, int | None], set[tuple[float | None, ...]]] = {}
    for one in report.networks:
        if one.run == run.run and one.result:
            by_images = found.setdefault(one.model, {}).setdefault(one.images, {})
            by_images.setdefault(one.result, []).append(one.title)
            # One of another accuracy class may print the same.
            share = (one.correctness, one.accuracy, one.agreement)
            shares.setdefault((one.model, one.images), set()).add(share)
    agree = all(len(printed) == 1 for printed in shares.values())
    sentences = [_verdict_of(run, agree=agree if found else None)]
    for model, sizes in found.items():
        alike = all(len(by) == 1 for by in sizes.values())
        every = [p for by in sizes.values() for each in by.values() for p in each]
        count = len(set(every))
        results = [
            f"{result}{_on(images)}" + ("" if alike else f" by {_several(programs)}")
            for images, by in sorted(sizes.items(), key=lambda each: -(each[0] or 0))
            for result, programs in by.items()
        ]
        named = model or _several(every)
        same = f", from all {count} programs and variants" if model and alike else ""
        sentences.append(f"{named}: {', '.join(results)}{same * (count > 1)}.")
    return " ".join(sentences)


def _verdict_of(run: RunSummary, *, agree: bool | None) -> str:
    """Return whether the answers are right, as far as anybody says.

    ``agree`` is whether all programs printed the same of a model and its images, None
    if there is nothing.
    """
    verdict = run.verdict
    if verdict and verdict.passed is not None:
        good = "Yes: all results are as the build file expects."
        return good if verdict.passed else "No, as the result says."
    if agree is None:
        return "Not known: no command printed a correctness."
    if not agree:
        return "The programs disagree, and the build file expects no result."
    return "The build file expects no result; the programs agree."


def _on(images: int | None) -> str:
    return "" if images is None else f" on {images} images"


def _several(names: Sequence[str]) -> str:
    """List names, each once and not too many."""
    every = list(dict.fromkeys(names))
    more = f" and {len(every) - MOST_NAMED} more" if len(every) > MOST_NAMED else ""
    return ", ".join(every[:MOST_NAMED]) + more


def by_trace(kernels: Iterable[KernelAnalysis]) -> dict[str, list[KernelAnalysis]]:
    """Return kernels by the profile that they are in."""
    found: dict[str, list[KernelAnalysis]] = {}
    for one in kernels:
        found.setdefault(one.trace, []).append(one)
    return found


def times(before_s: float, after_s: float) -> str:
    """Return how many times as fast the second time is as the first."""
    return f"{before_s / after_s:.3g} times" if before_s and after_s else ""


def gpu_scripts(report: Report) -> set[str]:
    """Return the programs whose kernels are in a profile, or have to be."""
    kernels = ReportedKind.KERNELS
    asked = (item for one in report.milestones for item in one.items)
    return {
        *(one.script for one in report.shares if one.kind is kernels),
        *(item.script for item in asked if item.kind is kernels),
    }


def largest(found: Sequence[NetworkFigures]) -> list[NetworkFigures]:
    """Return the networks that ran on the largest number of images."""
    most = max((one.images or 0 for one in found), default=0)
    return [one for one in found if (one.images or 0) == most]


def first_on_gpu(
    report: Report, found: Sequence[NetworkFigures]
) -> NetworkFigures | None:
    """Return the first of networks that a GPU computed, by the commands' order."""
    on_gpu = gpu_scripts(report)
    return next((one for one in found if one.script in on_gpu), None)


def _median(one: NetworkFigures) -> float:
    return one.op_time_s.median if one.op_time_s else 0.0


def _bar(one: NetworkFigures) -> Bar:
    """Return the bar of a network, with the least and the most of several rounds."""
    found = one.op_time_s
    low, high = (
        (found.smallest, found.largest) if found and found.n > 1 else (None, None)
    )
    return Bar(one.title, _median(one), low, high)


class _Answers:
    """The answers about one model in a run."""

    def __init__(self, report: Report, run: RunSummary, model: str, of: str) -> None:
        self.report, self.run = report, run
        self.timed = [one for one in _timed(report, run.run) if one.model == model]
        self.found = largest(self.timed)
        self.best = min(self.found, key=_median)
        self.of = of
        self.name = "-".join(filter(None, (run.run, _NOT_IN_NAME.sub("_", model))))

    def parts(self) -> Iterator[Part]:
        """Yield how fast the best is, what each step brought, and what bounds it."""
        yield Paragraph(self.of + self._fast(), strong="How fast is the best?")
        steps = self._steps()
        if brought := self._brought(steps):
            yield Paragraph(self.of + brought, strong="What brought it?")
        if len(steps) > 1:
            yield self._table(steps)
        if len(self.found) > 1:
            yield self._picture()
        yield Paragraph(self.of + self._bounds(), strong="What bounds it, what next?")

    def _fast(self) -> str:
        best = self.best
        layers = " + ".join(brief(one.median) for one in best.op_times_s)
        spent = brief(_median(best))
        each = f" ({layers})" if len(best.op_times_s) > 1 else ""
        sentences = [f"{best.title} has Op Times of {spent}{each}{_on(best.images)}"]
        if whole := self._whole(best):
            sentences[0] += f"; its whole program takes {whole}"
        others = []
        first = first_on_gpu(self.report, self.found)
        if first and first is not best:
            others.append((_median(first), f"the first GPU version, {first.title}"))
        if library := self._library():
            seconds, where = library
            what = (
                f"the library's convolutions in {where} ({brief(seconds)} of GPU time)"
            )
            others.append((seconds, what))
        ratios = [
            f"{ratio} as fast as {what}"
            for seconds, what in others
            if (ratio := times(seconds, _median(best)))
        ]
        if ratios:
            sentences.append(f"That is {', and '.join(ratios)}")
        unknown = (one for one in self.timed if one.images is None)
        other = min(unknown, key=_median, default=best)
        if best.images is not None and _median(other) < _median(best):
            sentences.append(
                f"{other.title} has {brief(_median(other))}, on a number of images that"
                " its command does not name"
            )
        if judged := self._judged():
            sentences.append(judged)
        return f"{'. '.join(sentences)}."

    def _whole(self, one: NetworkFigures) -> str:
        """Return what the command of a network took in all."""
        for time in self.report.times:
            if (time.run, time.number) == (one.run, one.number):
                measured = time.wall_s.median if time.wall_s else None
                return brief(measured if time.elapsed_s is None else time.elapsed_s)
        return ""

    def _library(self) -> tuple[float, str] | None:
        """Return the time of a library's convolutions on as many images, and where."""
        own = {one.script for one in self.report.networks if one.op_times_s}
        sizes = {one.script: one.images for one in self.report.networks}
        scripts = {(one.run, one.trace.path): one.script for one in self.report.traces}
        found: dict[str, float] = {}
        for kernel in self._kernels():
            script = scripts.get((self.run.run, kernel.trace), "")
            same = sizes.get(script) in (None, self.best.images)
            convolution = _CONVOLUTION.search(kernel.kernel) and not kernel.variant
            if script and script not in own and same and convolution:
                found[script] = found.get(script, 0.0) + kernel.total_s
        return next(((seconds, script) for script, seconds in found.items()), None)

    def _kernels(self) -> list[KernelAnalysis]:
        analysed = (a for a in self.report.analysis if a.run == self.run.run)
        return [kernel for one in analysed for kernel in one.kernels]

    def _judged(self) -> str:
        """Return what the judge measured of the best accepted entry."""
        measured = self.run.measurement
        entries = [e for e in measured.entries if e.accepted] if measured else []
        known = [(e.ratio, e) for e in entries if e.ratio and e.ms is not None]
        if not known:
            return ""
        ratio, entry = min(known, key=lambda each: each[0])
        return (
            f"The judge measured {entry.variant} at {brief((entry.ms or 0) / 1000)},"
            f" {1 / ratio:.3g} times as fast as its reference"
        )

    def _steps(self) -> list[NetworkFigures]:
        """Return the best of each program, in the order of the commands."""
        best: dict[str, NetworkFigures] = {}
        for one in self.found:
            other = best.setdefault(one.script, one)
            if _median(one) < _median(other):
                best[one.script] = one
        return list(best.values())

    def _brought(self, steps: Sequence[NetworkFigures]) -> str:
        sentences = [
            f"{after.title} is {ratio} as fast as {before.title}"
            for before, after in pairwise(steps)
            if (ratio := times(_median(before), _median(after)))
        ]
        return f"{'; '.join(sentences)}." if sentences else ""

    def _table(self, steps: Sequence[NetworkFigures]) -> Table:
        first = first_on_gpu(self.report, steps)
        rows = [
            (
                one.title,
                brief(_median(one)),
                times(_median(before), _median(one)) if before else "",
                times(_median(first), _median(one)) if first not in (None, one) else "",
                self._whole(one),
            )
            for before, one in zip((None, *steps), steps, strict=False)
        ]
        versus = f"as fast as {first.script}" if first else "as fast as the first"
        heads = ("step", "Op Times", "as fast as the step before", versus, "program")
        versus = f"as fast as {first.script}" if first else ""
        heads = ("step", "Op Times", "as fast as the step before", versus, "program")
        title = f"{self.of}The best of each program{_on(self.best.images)}"
        return filled(title, heads, rows, heads[1:], keep=filter(None, heads))

    def _picture(self) -> Picture:
        bars = tuple(_bar(one) for one in self.found[:MOST_BARS])
        values = [bar.value for bar in bars if bar.value > 0]
        wide = bool(values) and max(values) > 50 * min(values)
        model = f"{self.best.model}: " if self.best.model else ""
        title = f"{self.of or model}Op Times{_on(self.best.images)}"
        text = "The sum of the Op Times of each program and variant."
        chart = BarChart(title, "s", bars, logarithmic=wide)
        return Picture(f"op-times-{self.name}", text, chart)

    def profiles(self) -> set[str]:
        """Return the files of profilers that the best's program wrote of its model."""
        best = (self.best.run, self.best.script)
        return {
            one.trace.path
            for one in self.report.traces
            if (one.run, one.script) == best and self._alone(one.number)
        }

    def _alone(self, number: int | None) -> bool:
        """Return whether a command printed nothing of another model."""
        return not any(
            one.model != self.best.model
            for one in self.report.networks
            if (one.run, one.number) == (self.run.run, number)
        )

    def _bounds(self) -> str:
        """Return what bounds the kernels of the best, and what to try."""
        best = self.best
        profiles = self.profiles()

        def is_own(one: KernelAnalysis) -> bool:
            alike = one.variant and best.variant in ("", one.variant) and one.bound
            return bool(alike) and one.batch_size in (None, best.images)

        # Shares are those of one profile.
        found = by_trace(one for one in self._kernels() if one.trace in profiles)
        every = max(found.values(), key=lambda e: sum(map(is_own, e)), default=[])
        own = sorted(filter(is_own, every), key=lambda one: -one.total_s)
        if not own:
            return self._by_layer()
        sentences = [_bounded(one) for one in own[:2]]
        share = sum(one.percent for one in own)
        others = [one for one in every if not is_own(one)]
        if others and share < MUCH:
            other = max(others, key=lambda one: one.percent)
            sentences.append(
                f"But all its convolutions are only {share:.0f} % of the kernels'"
                f" time: for the whole program look at"
                f" {shortened(other.kernel, LONGEST_NAME)}, {other.percent:.0f} %."
            )
        return " ".join(sentences)

    def _by_layer(self) -> str:
        """Return what bounds the layers, where the kernels are not known."""
        best = self.best
        found = [
            one
            for run in self.report.layers
            if run.run == best.run
            for one in run.layers
            if one.bound and one.command == self._command() and self._printed(one)
        ]
        if self.run.gpu is None:
            return "Not known: the run had no GPU."
        if not found:
            return (
                "Not known: run it alone under nvprof -o FILE.nvprof, and describe"
                " its kernels in rai-kernels.json (docs/results.md)."
            )
        slowest = max(found, key=lambda one: one.op_time_s)
        assert slowest.bound
        where = f"Layer {slowest.layer} ({brief(slowest.op_time_s)})"
        return f"{where} {_verdict(slowest.bound, None)}"

    def _command(self) -> str:
        best = (self.best.run, self.best.number)
        every = (one for one in self.report.times if (one.run, one.number) == best)
        return next((one.command for one in every), "")

    def _printed(self, layer: LayerAnalysis) -> bool:
        """Return whether the best printed a layer's time, in a round."""
        return self.best.variant in ("", layer.variant) and any(
            one.smallest <= layer.op_time_s <= one.largest
            for one in self.best.op_times_s
        )


MOST_BARS = 40


def limit(bound: KernelBound) -> str:
    """Return what bounds a kernel in a few words: latency below 60 % of both roofs."""
    share = f"{bound.percent:.1f} %"
    return (
        f"latency ({share} of {bound.by})" if bound.latency else f"{bound.by} ({share})"
    )


def _bounded(one: KernelAnalysis) -> str:
    assert one.bound
    where = f"{shortened(one.kernel, LONGEST_NAME)} ({one.layer or one.variant},"
    return f"{where} {brief(one.average_s)}) {_verdict(one.bound, one.occupancy)}"


def _verdict(bound: KernelBound, held: Occupancy | None) -> str:
    share = f"{bound.percent:.1f} %"
    if bound.latency:
        return (
            f"is bound by latency: it reaches {share} of the {bound.by} roof, less than"
            f" {LATENCY_BELOW:.0f} % of both. Next: {_more_in_flight(held)}."
        )
    if bound.by == MEMORY:
        return (
            f"is bound by memory, at {share} of its roof. Next: move fewer bytes, by"
            " reuse on the chip, fused layers or smaller types."
        )
    return (
        f"is bound by {bound.by} arithmetic, at {share} of its roof. Next: fewer"
        " operations, or units that do more a second."
    )


def _more_in_flight(held: Occupancy | None) -> str:
    """Return how to have more work under way while others wait."""
    alone = "more independent work for each thread, and loads that begin earlier"
    if held is None:
        return alone
    limits = " and ".join(held.limits)
    if not held.steps:
        return f"{alone}; occupancy is {held.percent:.0f} %, limited by {limits}"
    step = min(held.steps, key=lambda one: -one.percent)
    change = next(
        f"{value} {of}"
        for value, of in (
            (step.registers, "registers a thread"),
            (size(step.shared_bytes), "of shared memory a block"),
            (step.threads, "threads a block"),
        )
        if value
    )
    return (
        f"{change}, which would raise the occupancy from {held.percent:.0f} % to"
        f" {step.percent:.0f} %; or {alone}"
    )
