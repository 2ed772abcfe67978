"""The measurement of a submission, kept in the folder of the run that measured it."""

from __future__ import annotations

from collections.abc import Iterator

from runner import files
from runner.core.measurement import (
    MEASUREMENT_BYTES,
    Measurement,
    MeasurementError,
    from_json,
    to_json,
)
from runner.store import runs
from runner.store.paths import Home, RunPaths

_MOST_BYTES = 4 * MEASUREMENT_BYTES
"""What is kept is indented, and rai adds to it."""


def of(paths: RunPaths) -> Measurement | None:
    """Return what a run measured; None if that is nothing, or cannot be read."""
    try:
        found = files.read_below(paths.root, paths.measurement.name, _MOST_BYTES)
        return from_json(found)
    except (OSError, MeasurementError):
        return None


def every(home: Home) -> Iterator[tuple[RunPaths, Measurement]]:
    """Yield the runs that measured a submission, and what they measured."""
    for name in sorted(runs.names(home)):
        paths = home.run(name)
        if (found := of(paths)) is not None:
            yield paths, found


def counts(paths: RunPaths) -> bool:
    """Whether a run measured a submission that counts, as `rai ranking` lists it."""
    found = of(paths)
    return found is not None and found.counts


def keep(paths: RunPaths, measurement: Measurement) -> None:
    """Write a measurement into a run's folder, so that no reader sees half of it."""
    files.write(paths.measurement, to_json(measurement))
