"""A run's record, with its tag and the end of what its commands printed."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from types import MappingProxyType

from msgspec import Struct

from runner.comparison import metrics
from runner.comparison.metrics import PEAK_MEMORY
from runner.core import CommandRecord, RunRecord
from runner.core.screen import TerminalFilter, printable, uncoloured

MOST_TAILS = 100
"""So many commands that failed are shown with the end of their output."""

TAIL_BYTES = 8 << 10
"""The most of a command's output that is shown."""

NO_TAILS: Mapping[int, str] = MappingProxyType({})


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


def figures(record: RunRecord) -> dict[str, float]:
    """Return the figures of a run by name; of repeated commands their medians.

    A name is as a gate has it: ``op_time[final]``, ``command[2].wall``. Shares are from
    0 to 1, times in seconds, memory in bytes. Agreement and accuracy, which no gate
    judges, are the least of a command.
    """
    values: dict[str, list[float]] = {}
    if (peak_bytes := metrics.peak_memory(record)) is not None:
        values[PEAK_MEMORY] = [peak_bytes]
    keys = metrics.keys(record.commands)
    for command in record.commands:
        key = keys.get(command.number - 1, str(command.number))
        found = list(metrics.of_command(command, key))
        for name in ("agreement", "accuracy"):
            shares = [getattr(one, name) for one in command.findings.inferences]
            if known := [share for share in shares if share is not None and share >= 0]:
                found.append((f"{name}[{key}]", min(known)))
        for name, value in found:
            values.setdefault(name, []).append(value)
    return {name: median(each) for name, each in values.items()}
