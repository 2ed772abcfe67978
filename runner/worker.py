"""Carry out one detached run: `python -m runner.worker FOLDER`.

The folder is the run's own. The worker claims it, waits for one byte on its stdin,
which says that the sealed project is there, and runs it. Where the client leaves
before, there is nothing to run, and the folder goes.
"""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path
from types import FrameType

from runner.core.cancel import Cancel
from runner.core.errors import RaiError
from runner.session import resume
from runner.store.claim import Claim, ClaimedError
from runner.store.paths import RunPaths


def main(folder: str) -> int:
    """Run what is in the folder; return 0 if it was carried out, whatever its end."""
    paths, cancel = RunPaths(Path(folder)), Cancel()

    def stop(number: int, frame: FrameType | None) -> None:
        cancel.request()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, stop)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        claim = Claim(paths)
    except ClaimedError:
        return 0  # another worker was first: nothing runs twice
    with claim:
        if not sys.stdin.buffer.read(1):
            shutil.rmtree(paths.root, ignore_errors=True)
            return 0
        try:
            for _ in resume(paths, claim).events(cancel):
                pass
        except RaiError as error:
            print(error, file=sys.stderr)
            return error.reason.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
