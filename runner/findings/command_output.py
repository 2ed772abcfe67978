"""The figures in the output of one command, while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.core import Findings, Stream
from runner.core import events as ev

if TYPE_CHECKING:
    from runner.findings import Scanner


class CommandOutput:
    """Scans the output of one command for figures, each stream by itself.

    The scanner is imported at the first output, while the command runs: a silent one
    does not need it.
    """

    def __init__(self) -> None:
        self._scanners: dict[Stream, Scanner] = {}

    def feed(self, event: ev.Output) -> None:
        """Read a piece of the output."""
        if not self._scanners:
            from runner.findings import Scanner

            self._scanners = {stream: Scanner() for stream in Stream}
        self._scanners[event.stream].feed(event.data)

    def findings(self) -> Findings:
        """Return what was found so far."""
        if not self._scanners:
            return Findings()
        from runner.findings import combined

        return combined(scanner.findings() for scanner in self._scanners.values())
