"""Read all that a report of a run is made of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from runner.core import RunRecord
from runner.core.evidence import RunEvidence
from runner.core.kernel_shapes import FILE
from runner.core.trace import Timeline
from runner.evidence import build, outputs, profiles, shapes
from runner.store import measurements, tags
from runner.store.paths import RunPaths


class FoundEvidence(Struct, frozen=True):
    """A run, and the timelines of its profiles by their names in the build folder."""

    run: RunEvidence
    timelines: Mapping[str, Timeline]


def read(
    paths: RunPaths,
    record: RunRecord,
    away: str = "",
    *,
    timelines: bool = False,
) -> FoundEvidence:
    """Return what a run left behind.

    What cannot be read is among the problems, and the rest stands. Timelines are read
    only if wanted.
    """
    printed, problems = outputs.outputs(paths, [c.index for c in record.first_round])
    with TemporaryDirectory(prefix="rai-report-") as folder:
        into = Path(folder)
        names, unread = build.unpack(paths, record, into)
        found, wrong = shapes.read(into) if FILE in names else (None, ())
        files = [name for name in names if name != FILE]
        traces, drawn, unreadable = profiles.read(into, files, timelines=timelines)
    run = RunEvidence(
        record,
        tags.read(paths),
        tags.note(paths),
        away,
        printed,
        found,
        traces,
        measurements.of(paths),
        (*problems, *unread, *wrong, *unreadable),
    )
    return FoundEvidence(run, drawn)
