"""The latest Tick of a run: a small file that each one replaces, for `rai attach`."""

from __future__ import annotations

from contextlib import suppress

from runner import files
from runner.core.events import Tick, from_line, to_line
from runner.store.paths import RunPaths

LINE_BYTES = 4096


def write(paths: RunPaths, tick: Tick, at: float) -> None:
    """Replace the latest Tick; on a full disk the one before stays."""
    with suppress(OSError):
        files.write(paths.latest, to_line(tick, at))


def read(paths: RunPaths) -> tuple[float, Tick] | None:
    """Return the latest Tick and its time, or None."""
    try:
        with files.open_regular(paths.latest) as file:
            at, event = from_line(file.read(LINE_BYTES))
    except (OSError, ValueError):
        return None
    return (at, event) if isinstance(event, Tick) else None


def remove(paths: RunPaths) -> None:
    """Remove it: the run has ended."""
    with suppress(OSError):
        paths.latest.unlink(missing_ok=True)
