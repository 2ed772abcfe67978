"""What a server said last of a run that it carries out, and when."""

from __future__ import annotations

import time

from msgspec import Struct, json

from runner import files
from runner.core.units import Moment
from runner.store.paths import RunPaths
from runner.wire.remote_runs import RemoteRun

MOST_BYTES = 256 << 10


class SeenRun(Struct, frozen=True):
    """A run as its server showed it at a time, in seconds since 1970."""

    run: RemoteRun
    at: Moment


def write(paths: RunPaths, run: RemoteRun) -> None:
    """Keep what the server said just now."""
    files.write(paths.seen, json.encode(SeenRun(run, round(time.time(), 3))) + b"\n")


def read(paths: RunPaths) -> SeenRun | None:
    """Return what the server said last; None if it said nothing."""
    try:
        found = files.read_below(paths.root, paths.seen.name, MOST_BYTES)
        return json.decode(found, type=SeenRun)
    except (OSError, ValueError):
        return None
