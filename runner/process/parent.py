"""What happens to this process when the one that started it ends."""

from __future__ import annotations

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Have the kernel send this process SIGTERM when its parent ends.

    A shell that is ended leaves its programs alone, and a CI system kills these
    without a warning later (prctl(2), PR_SET_PDEATHSIG). Nothing is done where the
    kernel cannot do this. Programs that this process starts are not told.
    """
    parent = os.getppid()
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:  # it ended before it was asked for
        os.kill(os.getpid(), signal.SIGTERM)
