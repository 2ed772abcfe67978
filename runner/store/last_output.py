"""The end of what one command printed."""

from __future__ import annotations

from collections import deque

from runner.store.excerpt import Excerpt, Part
from runner.store.paths import RunPaths

LAST_LINES = 200


def last_output(paths: RunPaths, command: int, most_bytes: int) -> tuple[bytes, bool]:
    """Return the end of a command's output, and whether that is all of it.

    Both streams are in it, in the order in which their pieces came. ``command`` is the
    command's index.

    Raises:
        RaiError: the run's events are damaged.
        OSError: a file of the run cannot be read.
    """
    part = Part(lines=LAST_LINES, commands=frozenset({command}))
    kept: deque[bytes] = deque()
    size = 0
    whole = True
    for chunk in Excerpt(paths, part).pieces():
        kept.append(chunk.data[-most_bytes:])
        whole = whole and len(chunk.data) <= most_bytes
        size += len(kept[-1])
        while size - len(kept[0]) >= most_bytes:
            size -= len(kept.popleft())
            whole = False
    data = b"".join(kept)
    whole = whole and len(data) <= most_bytes and data.count(b"\n") < LAST_LINES
    return data[-most_bytes:], whole
