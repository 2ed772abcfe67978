"""The figures of a run: what each network printed, and what each command took; pure.

`rai show`, `rai diff`, reports and their check-lists are made of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from msgspec import Struct

from runner.core import CommandRecord, Findings, Inference, Outcome, RunRecord
from runner.core.kernel_shapes import KernelShapes, LayeredNetwork
from runner.core.samples import Spread, spread
from runner.figures.commands import called, script


class NetworkFigures(Struct, frozen=True):
    """What a network printed in one command, over all rounds that ended well.

    ``images`` is None if nobody says how many. ``op_times_s`` are those of
    each layer, ``op_time_s`` of their sums. Shares are the least of all rounds;
    ``agreement`` is that with the reference on synthetic images, and no accuracy.
    ``under`` are the profilers that ran along and took time.
    """

    run: str
    number: int
    name: str
    script: str
    variant: str
    images: int | None
    under: tuple[str, ...]
    model: str
    accuracy_class: str
    rounds: int
    op_times_s: tuple[Spread, ...]
    op_time_s: Spread | None
    layer_times_s: tuple[Spread, ...]
    correctness: float | None
    accuracy: float | None
    agreement: float | None
    synthetic: bool

    @property
    def result(self) -> str:
        """What it got right, in words."""
        return outcome(self)

    @property
    def title(self) -> str:
        """The script and the variant."""
        return " ".join(filter(None, (self.script, self.variant)))


def outcome(one: Inference | NetworkFigures) -> str:
    """Describe a network's result; a synthetic one is never called an accuracy."""
    of = f", {one.accuracy_class}" if one.accuracy_class else ""
    if one.agreement is not None:
        return f"agreement {one.agreement:g} (synthetic){of}"
    if one.correctness is not None:
        return f"correctness {one.correctness:g}{of}"
    return "" if one.accuracy is None else f"accuracy {one.accuracy:g}"


class CommandTimes(Struct, frozen=True):
    """What a command took: as rai measured it, and as its output says last."""

    wall_s: Spread | None = None
    cpu_s: Spread | None = None
    elapsed_s: float | None = None
    user_s: float | None = None
    system_s: float | None = None
    cpu_percent: float | None = None
    max_rss_bytes: int | None = None


def _counted(record: RunRecord) -> list[CommandRecord]:
    """Return of each command the rounds that ended well, else the first."""
    well = {one.number for one in record.commands if one.outcome in _WELL}
    return [
        one
        for one in sorted(record.commands, key=attrgetter("number"))
        if (one.outcome in _WELL if one.number in well else one.repeats is None)
    ]


_WELL = (Outcome.OK, Outcome.WRONG)


class _Printed(NamedTuple):
    """What one network printed in one round; ``command`` as NetworkFigures begin."""

    command: tuple[str, int, str, str]
    round: int
    place: int
    images: int | None
    under: tuple[str, ...]
    inference: Inference


def networks(
    record: RunRecord, shapes: KernelShapes | None = None
) -> tuple[NetworkFigures, ...]:
    """Return what each network printed, command by command.

    Where a program does not print how many images it took, ``shapes`` may say so.
    """
    found = []
    for command in _counted(record):
        where = (record.id, command.number, called(command), script(command.text))
        for place, one in enumerate(command.findings.inferences):
            network = _described(shapes, command.text, one)
            images = one.source.batch_size or (network.batch_size if network else None)
            under = one.source.under or command.findings.under
            found.append(_Printed(where, command.round, place, images, under, one))
    return _grouped(found)


def networks_of_output(found: Findings) -> tuple[NetworkFigures, ...]:
    """Return those of an output whose commands are known by its lines only."""
    printed = []
    for place, one in enumerate(found.inferences):
        of = one.source
        command = ("", of.number or 0, of.command, script(of.command))
        printed.append(_Printed(command, 0, place, of.batch_size, of.under, one))
    return _grouped(printed)


def _grouped(printed: Iterable[_Printed]) -> tuple[NetworkFigures, ...]:
    groups: dict[tuple[object, ...], list[_Printed]] = {}
    for one in printed:
        it = one.inference
        work = (it.model, it.source.variant, one.images, it.accuracy_class)
        if it.op_times_s or it.layer_times_s or outcome(it):
            groups.setdefault((one.command, one.place, *work), []).append(one)
    return tuple(map(_network, groups.values()))


def _network(found: Sequence[_Printed]) -> NetworkFigures:
    first, every = found[0], [one.inference for one in found]

    def layers(rounds: Sequence[tuple[float, ...]]) -> tuple[Spread, ...]:
        each = (
            spread([times[n] for times in rounds if len(times) > n])
            for n in range(max(map(len, rounds)))
        )
        return tuple(filter(None, each))

    def least(figure: str) -> float | None:
        values = (getattr(one, figure) for one in every)
        return min((v for v in values if v is not None), default=None)

    op_times = [one.op_times_s for one in every]
    return NetworkFigures(
        *first.command,
        variant=first.inference.source.variant,
        images=first.images,
        under=first.under,
        model=first.inference.model or "",
        accuracy_class=first.inference.accuracy_class,
        rounds=len({one.round for one in found}),
        op_times_s=layers(op_times),
        op_time_s=spread([sum(times) for times in op_times if times]),
        layer_times_s=layers([one.layer_times_s for one in every]),
        correctness=least("correctness"),
        accuracy=least("accuracy"),
        agreement=least("agreement"),
        synthetic=any(one.synthetic for one in every),
    )


def _described(
    shapes: KernelShapes | None, command: str, one: Inference
) -> LayeredNetwork | None:
    if shapes is None:
        return None
    from runner import analysis  # which `rai run` does without

    return analysis.network_of(shapes.networks, command, one)


def times(record: RunRecord) -> dict[int, CommandTimes]:
    """Return what each command took, by its number: medians, and the most memory.

    Of what an output says several times, as of parts of a command, the last counts.
    """
    rounds: dict[int, list[CommandRecord]] = {}
    for command in _counted(record):
        rounds.setdefault(command.number, []).append(command)
    return {number: _took(commands) for number, commands in rounds.items()}


def _took(rounds: Sequence[CommandRecord]) -> CommandTimes:
    printed: dict[str, list[float]] = {}
    for command in rounds:
        last: dict[str, float] = {}
        for one in command.findings.time_usage:
            last |= {
                name: v for name in _PRINTED if (v := getattr(one, name)) is not None
            }
        for name, value in last.items():
            printed.setdefault(name, []).append(value)
    known = {name: spread(values) for name, values in printed.items()}
    memory = known.pop("max_rss_kb", None)
    return CommandTimes(
        spread([one.wall_s for one in rounds if one.wall_s is not None]),
        spread([one.cpu_s for one in rounds if one.cpu_s is not None]),
        max_rss_bytes=int(memory.largest) * 1024 if memory else None,
        **{name: of.median for name, of in known.items() if of},
    )


_PRINTED = ("elapsed_s", "user_s", "system_s", "cpu_percent", "max_rss_kb")
