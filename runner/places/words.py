"""What workers print where nobody reads it."""

from __future__ import annotations

from runner import files
from runner.core.screen import printable
from runner.store.paths import RunPaths

MOST_BYTES = 1 << 20
SHOWN = 500


def last_words(paths: RunPaths) -> str:
    """Return the last line that a run's worker printed, "" if there is none."""
    try:
        said = files.read_below(paths.root, paths.worker_log.name, MOST_BYTES)
    except OSError:
        return ""
    return printable(said.decode(errors="replace").strip().rpartition("\n")[2][:SHOWN])
