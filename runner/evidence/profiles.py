"""Read the unpacked files of profilers: their sums, and their timelines."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from runner import traces
from runner.core.errors import RaiError
from runner.core.trace import Timeline, Trace

FEWEST_SPANS = 5000
"""A timeline has so many at least, however many profiles there are."""

MOST_CPU_S = 60.0
"""After so much work no further profile is read; a million records take 4 s."""


def read(
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
