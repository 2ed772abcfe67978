"""Op Times and correctness of a run, by script, variant and number of images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runner.core import Inference, RunRecord
from runner.core.samples import Spread, spread
from runner.report.document import commands
from runner.report.document.commands import CommandRounds
from runner.report.document.nouns import NetworkFigures


def networks(record: RunRecord) -> Iterator[NetworkFigures]:
    """Yield what each command printed of each network that it ran."""
    for command in commands.rounds(record):
        for place, one in enumerate(command.shown[0].findings.inferences):
            yield _figures(record, command, one, _rounds(command, place, one))


def _rounds(command: CommandRounds, place: int, like: Inference) -> list[Inference]:
    """Return what stands at one place of each round's output, if it is of the same."""
    found = []
    for one in command.shown:
        there = one.findings.inferences[place : place + 1]
        found += [i for i in there if _same(i, like)]
    return found


def _same(one: Inference, other: Inference) -> bool:
    return (
        one.source.variant == other.source.variant
        and one.source.batch_size == other.source.batch_size
        and len(one.op_times_s) == len(other.op_times_s)
        and len(one.layer_times_s) == len(other.layer_times_s)
    )


def _figures(
    record: RunRecord,
    command: CommandRounds,
    first: Inference,
    every: Sequence[Inference],
) -> NetworkFigures:
    sums = [sum(one.op_times_s) for one in every if one.op_times_s]
    return NetworkFigures(
        run=record.id,
        number=command.first.number,
        name=commands.name(command.first),
        script=commands.script(command.first.text),
        variant=first.source.variant,
        images=first.source.batch_size,
        under=first.source.under or command.first.findings.under,
        model=first.model or "",
        accuracy_class=first.accuracy_class,
        rounds=len(every),
        op_times_s=_layers([one.op_times_s for one in every]),
        op_time_s=spread(sums),
        layer_times_s=_layers([one.layer_times_s for one in every]),
        correctness=commands.least([one.correctness for one in every]),
        accuracy=commands.least([one.accuracy for one in every]),
        agreement=commands.least([one.agreement for one in every]),
        synthetic=any(one.synthetic for one in every),
    )


def _layers(rounds: Sequence[tuple[float, ...]]) -> tuple[Spread, ...]:
    """Return how the times of each layer spread."""
    layers = (spread(times) for times in zip(*rounds, strict=True))
    return tuple(one for one in layers if one is not None)
