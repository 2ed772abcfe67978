"""Read all that a report of a run is made of."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from runner import files, traces
from runner.core import RunRecord, kernel_shapes_reader
from runner.core.errors import RaiError
from runner.core.evidence import RunEvidence
from runner.core.kernel_shapes import FILE, KernelShapes
from runner.core.trace import Timeline, Trace
from runner.evidence import build, outputs
from runner.store import measurements, tags
from runner.store.paths import RunPaths

FEWEST_SPANS = 5000
"""A timeline has so many at least, however many profiles there are."""

MOST_CPU_S = 60.0
"""After so much work no further profile is read; a million records take 4 s."""


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
        found, wrong = _shapes(into) if FILE in names else (None, ())
        traced = [name for name in names if name != FILE]
        sums, drawn, unreadable = profiles(into, traced, timelines=timelines)
    run = RunEvidence(
        record,
        tags.read(paths),
        tags.note(paths),
        away,
        printed,
        found,
        sums,
        measurements.of(paths),
        (*problems, *unread, *wrong, *unreadable),
    )
    return FoundEvidence(run, drawn)


def _shapes(folder: Path) -> tuple[KernelShapes | None, tuple[str, ...]]:
    """Return what the file says, and what is wrong with it."""
    try:
        most = kernel_shapes_reader.MOST_BYTES
        data = files.read_below(folder, FILE, most)
    except OSError as error:
        return None, (f"{FILE} cannot be read: {error.strerror}",)
    found, problems = kernel_shapes_reader.read(data)
    return found, tuple(problem.message for problem in problems)


def profiles(
    folder: Path, names: Sequence[str], *, timelines: bool
) -> tuple[tuple[Trace, ...], dict[str, Timeline], tuple[str, ...]]:
    """Return the sums of each file, its timeline if wanted, and what went wrong.

    The timelines share the spans that one may have, and the sums their names.
    """
    sums: list[Trace] = []
    drawn: dict[str, Timeline] = {}
    problems: list[str] = []
    most = max(traces.MOST // max(len(names), 1), FEWEST_SPANS)
    begun = time.process_time()
    for name in names:
        if time.process_time() - begun > MOST_CPU_S:
            problems.append(f"{name} is not read: the profiles before it took too long")
            continue
        try:
            if timelines:
                found, drawn[name] = traces.read(folder / name, name, most)
            else:
                found = traces.summary(folder / name, name)
        except (OSError, RaiError) as error:
            problems.append(str(error))
            continue
        if len(names) > 1:
            found = traces.shared(found, len(names))
        sums.append(found)
        problems += [f"{name}: {problem}" for problem in found.problems]
    return tuple(sums), drawn, tuple(problems)
