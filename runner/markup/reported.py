"""A run's record, with its tag and the end of what its commands printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from runner.comparison import Unit, metrics
from runner.comparison.metrics import PEAK_MEMORY
from runner.core import CommandRecord, Inference, RunRecord
from runner.core.screen import TerminalFilter, printable, uncoloured

MOST_TAILS = 100
"""So many commands that failed are shown with the end of their output."""

TAIL_BYTES = 8 << 10
"""The most of a command's output that is shown."""

NO_TAILS: Mapping[int, str] = MappingProxyType({})

_UNITS = {Unit.SECONDS: "s", Unit.BYTES: "bytes", Unit.SHARE: ""}


class ReportedRun(Struct, frozen=True):
    """A run's record, its tag, and by index the end of what its commands printed."""

    record: RunRecord
    tag: str = ""
    tails: Mapping[int, str] = NO_TAILS

    def tail(self, command: CommandRecord) -> str:
        """Return the end of a command's output; "" where none is kept."""
        return self.tails.get(command.index, "")


def readable(data: bytes, *, whole: bool) -> str:
    """Return the end of a program's output as plain text.

    Sequences of terminals are gone, other controls are escaped. Unless it is ``whole``
    it begins with a line's beginning, if it has one.
    """
    shown = uncoloured(TerminalFilter().feed(data).decode(errors="replace"))
    if not whole:
        first, end, rest = shown.partition("\n")
        shown = f"...\n{rest if end else first}"
    return printable(shown.replace("\r\n", "\n").replace("\r", "\n")).rstrip("\n")


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
