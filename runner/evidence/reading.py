"""Read all that a report of a run is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from runner.core import RunRecord
from runner.core.caps import BUILD
from runner.core.evidence import RunEvidence
from runner.core.kernel_shapes import FILE
from runner.evidence import build, outputs, shapes
from runner.store import measurements, notes, tags
from runner.store.paths import RunPaths


class FoundEvidence(Struct, frozen=True):
    """A run, and the unpacked files of profilers by their names in the build folder."""

    run: RunEvidence
    traces: Mapping[str, Path]


@contextmanager
def opened(
    paths: RunPaths,
    record: RunRecord,
    away: str = "",
    most_files: int = BUILD.members,
) -> Iterator[FoundEvidence]:
    """Yield what a run left behind; the files of profilers are there until the end.

    What cannot be read is among the problems, and the rest stands.
    """
    printed, problems = outputs.outputs(paths, [c.index for c in record.first_round])
    with TemporaryDirectory(prefix="rai-report-") as folder:
        into = Path(folder)
        names, unread = build.unpack(paths, record, into, most_files)
        found, why = None, ""
        if FILE in names:
            found, why = shapes.read(into, build.MOST_SHAPES_BYTES)
        yield FoundEvidence(
            RunEvidence(
                record,
                tags.read(paths),
                notes.read(paths),
                away,
                printed,
                found,
                (),
                measurements.of(paths),
                tuple(filter(None, (*problems, *unread, why))),
            ),
            {name: into / name for name in names if name != FILE},
        )
