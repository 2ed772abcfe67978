"""A run's record, with its tag and the end of what its commands printed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

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
