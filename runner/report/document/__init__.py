"""Gather a report from what runs left behind: the table of figures, and its profiles.

Figures are grouped by network and by command (``figures.table``); profiles are cut
where their rows pass 90 % of the time.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from math import inf
from typing import Any

from msgspec.structs import asdict, replace

from runner.core import CommandRecord, Inference, Outcome, ProfileRow, RunRecord
from runner.core.evidence import RunEvidence, Totals
from runner.core.kernel_shapes import KernelShapes, LayeredNetwork, NetworkLayer
from runner.core.milestone import Milestone, ReportedKind
from runner.figures import analysis, peaks, table
from runner.figures.profile_tables import API_CALLS, CUDA_API, GPU, KERNELS
from runner.figures.table import called, script
from runner.report.diff_nouns import RunDiff
from runner.report.document import checklist
from runner.report.document.nouns import (
    FORMAT,
    PrintedCommand,
    Report,
    RunCounters,
    RunKernels,
    RunLayers,
    RunNetworks,
    RunSummary,
    RunTime,
    TimeShare,
    TimeShares,
    TracedFile,
)
from runner.report.findings import incomplete, summed, until

KINDS = {
    GPU: ReportedKind.KERNELS,
    KERNELS: ReportedKind.KERNELS,
    API_CALLS: ReportedKind.API_CALLS,
    CUDA_API: ReportedKind.API_CALLS,
}
"""What each section of a profile is of; other sections are not in a report."""

FLOAT_BYTES = 4


def report(
    found: Sequence[RunEvidence],
    milestones: Sequence[Milestone] = (),
    comparison: RunDiff | None = None,
) -> Report:
    """Return the report of runs, in their order.

    ``milestones`` are those whose check-lists it has; their layers give rates to
    programs that no rai-kernels.json describes. ``comparison`` is of two runs.
    """
    files = {one.record.id: _traced(one) for one in found}
    layers = {
        one.record.id: _layers(one, files[one.record.id], milestones) for one in found
    }
    made = Report(
        rai_report=FORMAT,
        runs=tuple(map(_summary, found)),
        milestones=(),
        times=tuple(time for one in found for time in _times(one.record)),
        networks=tuple(
            network
            for one in found
            for network in table.networks(one.record, one.shapes)
        ),
        shares=tuple(s for one in found for s in _shares(one, files[one.record.id])),
        shapes=tuple(
            RunNetworks(one.record.id, one.shapes.networks)
            for one in found
            if one.shapes and one.shapes.networks
        ),
        layers=tuple(
            RunLayers(run, analysed) for run, analysed in layers.items() if analysed
        ),
        analysis=tuple(
            kernels
            for one in found
            if (kernels := _kernels(one, files[one.record.id])).kernels
        ),
        counters=tuple(
            RunCounters(one.record.id, counted)
            for one in found
            if (counted := one.record.findings.counters)
        ),
        traces=tuple(file for every in files.values() for file in every),
        outputs=tuple(
            PrintedCommand(
                **_about(one.record, command), output=one.outputs.get(command.index)
            )
            for one in found
            for command in one.record.first_round
        ),
        comparison=comparison,
    )
    return checklist.checked(made, milestones)


def _summary(found: RunEvidence) -> RunSummary:
    record, ended = found.record, found.record.ended_at
    known: dict[str, Any] = {
        "run": record.id,
        "took_s": None if ended is None else max(0.0, ended - record.created_at),
        "exit_code": record.verdict.reason.exit_code if record.verdict else None,
        "rounds_wanted": record.repeat,
        "unfound": incomplete(record.findings),
    }
    for name in RunSummary.__struct_fields__:
        known.setdefault(name, getattr(found, name, getattr(record, name, None)))
    return RunSummary(**known)


def _times(record: RunRecord) -> Iterator[RunTime]:
    """Yield how each command ended and what it took."""
    times = table.times(record)
    for first in record.first_round:
        took = times.get(first.number, table.CommandTimes())
        yield RunTime(
            **_about(record, first),
            exit_code=first.exit_code,
            reason=first.reason,
            why=first.why,
            rounds=took.wall_s.n if took.wall_s else 1,
            under=first.findings.under,
            **asdict(took),
        )


def _about(record: RunRecord, command: CommandRecord) -> dict[str, Any]:
    """Return what tells a command from others."""
    return {
        "run": record.id,
        "number": command.number,
        "name": called(command),
        "command": command.text,
        "script": script(command.text),
        "outcome": command.outcome,
    }


def _gpus(found: RunEvidence) -> tuple[peaks.KnownGpu, ...]:
    measured = found.measurement.rates if found.measurement else None
    return peaks.known_gpus(found.record.gpu, measured)


def _kernels(found: RunEvidence, files: Sequence[TracedFile]) -> RunKernels:
    """Return what kernels reach; where a file names no command, it is its writer's."""
    gpus = _gpus(found)
    texts = {one.number: one.text for one in found.record.first_round}
    traces = [
        one.trace
        if one.trace.command or one.number is None
        else replace(one.trace, command=texts[one.number])
        for one in files
    ]
    return RunKernels(
        found.record.id,
        analysis.kernels(found.shapes, traces, gpus, found.record.findings.counters),
        analysis.bounds_of(found.traces, gpus),
    )


def _layers(
    found: RunEvidence, files: Sequence[TracedFile], milestones: Sequence[Milestone]
) -> tuple[analysis.LayerAnalysis, ...]:
    """Return the layers of the first round, as far as no profiler ran along.

    Those of programs that nobody describes are a milestone's. They have a bound if the
    program's kernels are in a profile.
    """
    gpus = _gpus(found)
    bounds = peaks.bounds(gpus[0]) if len(gpus) == 1 else None
    on_gpu = {one.script for one in files if one.trace.launches}
    layers: list[analysis.LayerAnalysis] = []
    for command in found.record.first_round:
        if command.outcome is not Outcome.OK or command.findings.under:
            continue
        for one in command.findings.inferences:
            own = analysis.layers(found.shapes, command.text, one, bounds)
            if not own and (shapes := _asked_for(command.text, one, milestones)):
                roof = bounds if script(command.text) in on_gpu else None
                own = analysis.layers(shapes, command.text, one, roof, "fp32")
            layers += own
    return tuple(layers)


def _asked_for(
    command: str, one: Inference, milestones: Sequence[Milestone]
) -> KernelShapes | None:
    """Return the network of the milestone that asks for a program, if it fits."""
    name, times = script(command), len(one.op_times_s)
    asking = (m for m in milestones if name in {item.script for item in m.report})
    fitting = (m for m in asking if times and len(m.layers) == times)
    if (milestone := next(fitting, None)) is None:
        return None
    images = one.source.batch_size or milestone.images
    layers = []
    for layer in milestone.layers:
        s = layer.shape
        rows, columns = s.H - s.K + 1, s.W - s.K + 1
        shapes = (
            (images, s.C, s.H, s.W),
            (images, s.M, rows, columns),
            (s.M, s.C, s.K, s.K),
        )
        elements = [a * b * c * d for a, b, c, d in shapes]
        flops = 2.0 * elements[1] * s.C * s.K * s.K
        moved = float(FLOAT_BYTES * sum(elements))
        layers.append(
            NetworkLayer(layer.name, "convolution", *shapes, flops, moved, timed=True)
        )
    network = LayeredNetwork(milestone.name, name, None, images, tuple(layers))
    return KernelShapes(networks=(network,))


def _writer(record: RunRecord, path: str) -> CommandRecord | None:
    """Return the command that wrote a file of the build folder, as far as is known."""
    ran = record.first_round
    for command in ran:
        if any(file.path == path for file in command.profile_files):
            return command
    name = re.compile(rf"(?<![\w.-]){re.escape(posixpath.basename(path))}(?![\w.-])")
    return next((c for c in ran if name.search(c.text)), None)


def _traced(found: RunEvidence) -> tuple[TracedFile, ...]:
    """Return the files of profilers as their commands ran; those of none are last."""
    files, run = [], found.record.id
    for trace in found.traces:
        about: tuple[int | None, str, str] = None, "", script(trace.command)
        if command := _writer(found.record, trace.path):
            about = command.number, called(command), script(command.text)
        files.append(TracedFile(run, *about, trace))
    return tuple(sorted(files, key=lambda one: one.number or inf))


def _shares(found: RunEvidence, files: Sequence[TracedFile]) -> Iterator[TimeShares]:
    """Yield the shares of each profile: of its file, else as they were printed."""
    record = found.record
    of_files: dict[tuple[int | None, ReportedKind], list[TimeShares]] = {}
    for file in files:
        for one in _of_file(file):
            of_files.setdefault((one.number, one.kind), []).append(one)
    for command in record.first_round:
        for kind in dict.fromkeys(KINDS.values()):
            if of_command := of_files.pop((command.number, kind), None):
                yield from of_command
                continue
            for printed in command.findings.profiles:
                if KINDS.get(printed.section) is kind and printed.rows:
                    yield TimeShares(
                        record.id,
                        command.number,
                        called(command),
                        script(command.text),
                        kind,
                        printed.tool,
                        printed.section,
                        printed.source.variant,
                        printed.source.batch_size,
                        "",
                        *_cut(printed.rows),
                    )
    for others in of_files.values():
        yield from others


def _of_file(file: TracedFile) -> Iterator[TimeShares]:
    sections: dict[str, list[Totals]] = {}
    for one in file.trace.totals:
        sections.setdefault(one.section, []).append(one)
    for section, totals in sections.items():
        whole = sum(one.total_s for one in totals)
        if section not in KINDS or whole <= 0:
            continue
        rows = [
            ProfileRow(
                one.name,
                100 * one.total_s / whole,
                one.total_s,
                one.count,
                one.total_s / max(one.count, 1),
                one.min_s,
                one.max_s,
            )
            for one in totals
        ]
        about = (file.run, file.number, file.name, file.script, KINDS[section])
        tool, path = file.trace.tool, file.trace.path
        yield TimeShares(*about, tool, section, "", None, path, *_cut(rows))


def _cut(
    rows: Sequence[ProfileRow],
) -> tuple[tuple[TimeShare, ...], TimeShare | None, int]:
    """Return the rows that pass 90 %, what the others add up to, and their number."""
    ordered = sorted(rows, key=lambda row: -row.percent)
    count = until([row.percent for row in ordered])
    reached, shown = 0.0, []
    for row in ordered[:count]:
        reached += row.percent
        shown.append(_share(row, reached))
    rest = ordered[count:]
    if not rest:
        return tuple(shown), None, 0
    others = rest[0] if len(rest) == 1 else summed(rest)
    return tuple(shown), _share(others, reached + others.percent), len(rest)


def _share(row: ProfileRow, reached: float) -> TimeShare:
    return TimeShare(**asdict(row), reached_percent=min(reached, 100.0))
