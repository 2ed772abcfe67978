"""Gather a report from what runs left behind."""

from __future__ import annotations

from collections.abc import Sequence

from runner import analysis
from runner.core import Outcome
from runner.core.evidence import RunEvidence
from runner.core.milestone import Milestone
from runner.report.diff.nouns import RunDiff
from runner.report.document import checklist, commands
from runner.report.document.networks import networks
from runner.report.document.nouns import (
    FORMAT,
    PrintedCommand,
    Report,
    RunCounters,
    RunKernels,
    RunLayers,
    RunNetworks,
)
from runner.report.document.shares import commanded, shares, traced
from runner.report.document.summaries import summary
from runner.report.document.times import run_times


def report(
    found: Sequence[RunEvidence],
    milestones: Sequence[Milestone] = (),
    comparison: RunDiff | None = None,
) -> Report:
    """Return the report of runs, in their order.

    ``milestones`` are those whose check-lists it has; ``comparison`` is of two runs.
    """
    files = {one.record.id: traced(one) for one in found}
    made = Report(
        rai_report=FORMAT,
        runs=tuple(map(summary, found)),
        milestones=(),
        times=tuple(t for one in found for t in run_times(one.record)),
        networks=tuple(n for one in found for n in networks(one.record)),
        shares=tuple(s for one in found for s in shares(one, files[one.record.id])),
        shapes=tuple(
            RunNetworks(one.record.id, one.shapes.networks)
            for one in found
            if one.shapes and one.shapes.networks
        ),
        layers=tuple(a for one in found if (a := _layers(one)).layers),
        analysis=tuple(k for one in found if (k := _analysed(one)).kernels),
        counters=tuple(
            RunCounters(one.record.id, counted)
            for one in found
            if (counted := one.record.findings.counters)
        ),
        traces=tuple(file for every in files.values() for file in every),
        outputs=tuple(p for one in found for p in _printed(one)),
        comparison=comparison,
    )
    return checklist.checked(made, milestones)


def _analysed(found: RunEvidence) -> RunKernels:
    measured = found.measurement.rates if found.measurement else None
    gpus = analysis.known_gpus(found.record.gpu, measured)
    counters = found.record.findings.counters
    return RunKernels(
        found.record.id,
        analysis.kernels(found.shapes, commanded(found), gpus, counters),
        analysis.bounds_of(found.traces, gpus),
    )


def _layers(found: RunEvidence) -> RunLayers:
    """Return the layers of the first round, as far as no profiler ran along."""
    measured = found.measurement.rates if found.measurement else None
    gpus = analysis.known_gpus(found.record.gpu, measured)
    printed = [
        (command.text, one)
        for command in found.record.first_round
        if command.outcome is Outcome.OK and not command.findings.under
        for one in command.findings.inferences
    ]
    bounds = analysis.bounds(gpus[0]) if len(gpus) == 1 else None
    return RunLayers(found.record.id, analysis.layers(found.shapes, printed, bounds))


def _printed(found: RunEvidence) -> list[PrintedCommand]:
    return [
        PrintedCommand(
            run=found.record.id,
            number=command.number,
            name=commands.name(command),
            command=command.text,
            script=commands.script(command.text),
            outcome=command.outcome,
            output=found.outputs.get(command.index),
        )
        for command in found.record.first_round
    ]
