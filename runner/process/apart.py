"""Do something in a process of its own, which takes its memory along when it ends."""

from __future__ import annotations

import os
from collections.abc import Callable


def apart(call: Callable[[], object]) -> bool:
    """Do a call in a copy of this process; return whether it raised nothing.

    This process may have no other threads. What is printed there is not shown; whoever
    needs the error makes the call again.
    """
    child = os.fork()
    if child == 0:
        status = 1
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            for stream in (1, 2):
                os.dup2(null, stream)
            call()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0
