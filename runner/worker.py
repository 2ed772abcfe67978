"""Carry out one detached run: `python -m runner.worker`.

The worker reads on stdin which folder to take, and claims it. Once it reads that the
project is sealed there, it runs it. Where the client leaves before, there is nothing to
run, and the folder goes.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType

from runner.core.cancel import Cancel
from runner.core.errors import RaiError
from runner.core.order import MOST_BYTES, SEALED, Order, from_line
from runner.core.variables import Secrets
from runner.session import resume
from runner.store import removal
from runner.store.claim import Claim, ClaimedError
from runner.store.paths import RunPaths


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

    def stop(number: int, frame: FrameType | None) -> None:
        cancel.request()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, stop)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        claim = Claim(paths)
    except (ClaimedError, FileNotFoundError):
        # Another worker was first, and nothing runs twice; or the client gave up.
        return 0
    with claim, paths.worker_log.open("ab") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
        if sys.stdin.buffer.readline(MOST_BYTES) != SEALED:
            removal.discard(paths.root.parent, paths.id)
            removal.empty(paths.root.parent)
            return 0
        try:
            secrets = Secrets(order.secrets)
            for _ in resume(paths, claim, order.spec_text, secrets).events(cancel):
                pass
        except RaiError as error:
            print(error, file=sys.stderr)
            return error.reason.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
