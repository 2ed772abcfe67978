"""What a terminal shows of repeats: the round, and what one printed that failed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from msgspec.structs import replace

from runner.core import events as ev

HELD_BYTES = 16 << 10
"""How much of a repeat's output is shown if it fails: the end of it."""


class RoundsShown:
    """The round that goes on, if it is not the first, and the output of its command."""

    def __init__(self) -> None:
        self._started: ev.CommandStarted | None = None
        self._total = 1
        self._held: deque[ev.Output] = deque()
        self._size = 0
        self._told = False

    def follow(self, event: ev.Event) -> None:
        """Keep which round it is."""
        if isinstance(event, ev.Created):
            self._total = event.repeat
        elif isinstance(event, ev.CommandStarted):
            self._started = event if event.repeats is not None else None
            self._held.clear()
            self._size, self._told = 0, False

    def of(self, event: ev.Event) -> bool:
        """Whether an event is of a repeat that goes on or has just ended."""
        started = self._started
        return started is not None and getattr(event, "index", None) == started.index

    @property
    def name(self) -> str:
        """Which round it is, and of how many if that is known."""
        number = self._started.round + 1 if self._started else 1
        return f"Round {number}" + (f" of {self._total}" if self._total > 1 else "")

    def announced(self, *run_ids: str) -> str:
        """Return the line before the first repeat, which names where its output is."""
        rounds = f", {self._total} rounds in all" if self._total > 1 else ""
        logs = ", ".join(f"rai logs {run_id}" for run_id in run_ids)
        again = f"What repeats print is kept and not shown: {logs}"
        return f"Repeating what is measured{rounds}. {again}"

    @property
    def held(self) -> Iterator[ev.Output]:
        """The end of what the repeat printed."""
        return iter(self._held)

    def hold(self, event: ev.Output) -> None:
        """Keep the end of a repeat's output."""
        self._held.append(event)
        self._size += len(event.data)
        while (excess := self._size - HELD_BYTES) > 0:
            first = self._held.popleft()
            self._size -= len(first.data)
            if rest := first.data[excess:]:
                self._held.appendleft(replace(first, data=rest))
                self._size += len(rest)

    def failed(self, event: ev.Event) -> bool:
        """Whether an event is the first that says that a repeat went wrong."""
        match event:
            case ev.CommandFinished():
                wrong = event.exit_code != 0 or event.reason is not None
            case ev.Checked(_, checks):
                wrong = not all(check.holds for check in checks)
            case _:
                wrong = False
        first, self._told = wrong and not self._told, wrong or self._told
        return first
