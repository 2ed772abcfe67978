"""The figures of a record, each with a name and a unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from msgspec import Struct
from msgspec.structs import replace

from runner.comparison import Unit, metrics
from runner.comparison.metrics import PEAK_MEMORY
from runner.core import Inference, RunRecord


class NamedFigure(Struct, frozen=True):
    """A figure; ``unit`` is s, bytes, or "" for a share from 0 to 1.

    ``name`` is as a gate has it: ``op_time[final]``, ``command[2].wall``. ``command``
    is the command's index, None for a figure of the whole run. A repeat's figures have
    the names of those that it repeats.
    """

    name: str
    value: float
    unit: str
    command: int | None = None


_UNITS = {Unit.SECONDS: "s", Unit.BYTES: "bytes", Unit.SHARE: ""}


def of(record: RunRecord) -> Iterator[NamedFigure]:
    """Yield the figures of a run: those of the whole run, then of each command."""
    if (peak_bytes := metrics.peak_memory(record)) is not None:
        yield NamedFigure(PEAK_MEMORY, peak_bytes, "bytes")
    keys = metrics.keys(record.commands)
    for command in record.commands:
        key = keys.get(command.number - 1, str(command.number))
        for name, value in metrics.of_command(command, key):
            unit = _UNITS[metrics.parsed(name).unit]
            yield NamedFigure(name, value, unit, command.index)
        for name, value in _compared(command.findings.inferences):
            yield NamedFigure(f"{name}[{key}]", value, "", command.index)


def _compared(inferences: Sequence[Inference]) -> Iterator[tuple[str, float]]:
    """Yield the least of what inferences agreed in, which no gate judges."""
    for name in ("agreement", "accuracy"):
        values = (getattr(one, name) for one in inferences)
        if known := [value for value in values if value is not None and value >= 0]:
            yield name, min(known)


def medians(found: Sequence[NamedFigure]) -> Iterator[NamedFigure]:
    """Yield each named figure once: the median of its values, in their order."""
    values: dict[str, list[float]] = {}
    for one in found:
        values.setdefault(one.name, []).append(one.value)
    first = {one.name: one for one in reversed(found)}
    for name, each in values.items():
        yield replace(first[name], value=median(each))
