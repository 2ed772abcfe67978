"""Tell a sandbox that failed to start from a command that failed in it.

The last step before the command prints a random marker on stderr. What comes before it
is the sandbox's own output; if the marker never comes, the sandbox failed.
"""

from __future__ import annotations

import os
from collections.abc import Generator

from msgspec.structs import replace

from runner.core import Stream
from runner.core.events import Output, Tick
from runner.process import Ended


class StartMarker:
    """A random marker, and what was printed before it."""

    def __init__(self) -> None:
        self.text = os.urandom(8).hex()
        self.seen = False
        self.before = ""

    def strip(
        self, stream: Generator[Output | Tick, None, Ended]
    ) -> Generator[Output | Tick, None, Ended]:
        """Yield a command's stream without the marker and what came before it."""
        try:
            while True:
                try:
                    event = next(stream)
                except StopIteration as stop:
                    ended: Ended = stop.value
                    return ended
                if not self.seen and _on_stderr(event):
                    yield from self._search(event)
                else:
                    yield event
        finally:
            stream.close()

    def search(self, text: str) -> str:
        """Look for the marker in more of what was printed; return what follows it."""
        self.before += text
        before, found, rest = self.before.partition(self.text)
        if found:
            self.seen, self.before = True, before
        return rest

    def _search(self, event: Output | Tick) -> Generator[Output, None, None]:
        assert isinstance(event, Output)
        if rest := self.search(event.data.decode(errors="surrogateescape")):
            yield replace(event, data=rest.encode(errors="surrogateescape"))


def _on_stderr(event: Output | Tick) -> bool:
    return isinstance(event, Output) and event.stream is Stream.STDERR
