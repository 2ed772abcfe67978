"""How it is known that a sandbox stood before its command spoke or failed.

The last step before the command says a secret word on stderr. What comes earlier is the
sandbox's own talk; a sandbox that never says the word has failed, not the command.
"""

from __future__ import annotations

import os
from collections.abc import Generator

from msgspec.structs import replace

from runner.core import Stream
from runner.core.events import Output, Tick
from runner.process import Ended


class Greeting:
    """One secret word, and what was said before it."""

    def __init__(self) -> None:
        self.word = os.urandom(8).hex()
        self.heard = False
        self.talk = ""

    def strip(
        self, stream: Generator[Output | Tick, None, Ended]
    ) -> Generator[Output | Tick, None, Ended]:
        """Pass a command's stream on without the word and what came before it."""
        try:
            while True:
                try:
                    event = next(stream)
                except StopIteration as stop:
                    ended: Ended = stop.value
                    return ended
                if not self.heard and _on_stderr(event):
                    yield from self._listen(event)
                else:
                    yield event
        finally:
            stream.close()

    def _listen(self, event: Output | Tick) -> Generator[Output, None, None]:
        assert isinstance(event, Output)
        self.talk += event.data.decode(errors="surrogateescape")
        talk, word, rest = self.talk.partition(self.word)
        if word:
            self.heard, self.talk = True, talk
            if rest:
                yield replace(event, data=rest.encode(errors="surrogateescape"))


def _on_stderr(event: Output | Tick) -> bool:
    return isinstance(event, Output) and event.stream is Stream.STDERR
