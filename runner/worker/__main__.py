"""Carry out one detached run: `python -m runner.worker`.

The worker reads on stdin which folder to take, and claims it. Once it reads that the
project is sealed there, or the order says so, it runs it. Where the client leaves
before, there is nothing to run, and the folder goes.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from runner import engines
from runner.core import events as ev
from runner.core.cancel import Cancel
from runner.core.errors import RaiError
from runner.core.order import (
    MOST_BYTES,
    MOST_PROBLEMS,
    SEALED,
    Answer,
    Order,
    from_line,
    to_line,
)
from runner.store import removal
from runner.store.claim import Claim, ClaimedError
from runner.store.paths import RunPaths
from runner.worker import cancel_on_signals, resume


def main() -> int:
    """Take one order; return 0 if it was carried out, however the run ended."""
    line = sys.stdin.buffer.readline(MOST_BYTES)
    if not line:
        return 0
    order = from_line(line)
    os.environ |= order.settings
    return _take(RunPaths(Path(order.folder)), order)


def _take(paths: RunPaths, order: Order) -> int:
    cancel = Cancel()
    cancel_on_signals(cancel)
    try:
        claim = Claim(paths)
    except (ClaimedError, FileNotFoundError):
        # Another worker was first, and nothing runs twice; or the client gave up.
        return 0
    client = _Client()
    with claim, paths.worker_log.open("ab") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
        choice = engines.chosen(order.engines, order.why) if order.engines else None
        if not order.sealed and sys.stdin.buffer.readline(MOST_BYTES) != SEALED:
            removal.discard(paths.root.parent, paths.id)
            removal.empty(paths.root.parent)
            return 0
        try:
            run = resume(paths, claim, order, choice)
            for event in run.events(cancel):
                client.follow(event)
        except RaiError as error:
            print(error, file=sys.stderr)
            client.tell(Answer(error.problems[:MOST_PROBLEMS], error.reason))
            return error.reason.exit_code
    return 0


class _Client:
    """The client, which waits for one answer at this process's first stdout."""

    def __init__(self) -> None:
        self._pipe = os.dup(1)

    def follow(self, event: ev.Event) -> None:
        """Answer that the run was taken once nothing refused it, or that it ended."""
        if isinstance(event, ev.Packing):
            self.tell(Answer())
        elif isinstance(event, ev.Finished):
            self.tell(Answer(ended=True))

    def tell(self, answer: Answer) -> None:
        """Write the answer, unless there was one, or nobody reads it any more."""
        if self._pipe >= 0:
            with suppress(OSError):
                os.write(self._pipe, to_line(answer))
            os.close(self._pipe)
            self._pipe = -1


if __name__ == "__main__":
    sys.exit(main())
