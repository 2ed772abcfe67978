"""Sums by name."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from runner.core.trace import Totals, Trace

MOST_LAUNCHES = 5_000
"""Configurations of launches that are listed."""

MOST_NAMES = 10_000
"""Names that are summed up by themselves; the others share one sum."""

MOST_TEXT = 4 << 20
"""Characters of the names of a file; names beyond them share one sum too."""

OTHERS = "(all other names)"


class Sums:
    """The number and the time of spans by section and name, in nanoseconds."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], list[float]] = {}
        self._others = False
        self.spans = 0
        self.begin: int | None = None

    def add(
        self,
        section: str,
        name: str,
        count: object,
        total: object,
        least: object,
        most: object,
        first: object,
    ) -> None:
        """Add spans of one name, of which ``first`` is the first start.

        Those of no section are only counted.
        """
        if isinstance(first, int) and (self.begin is None or first < self.begin):
            self.begin = first
        figures = [
            float(each) if isinstance(each, int | float) else 0.0
            for each in (count, total, least, most)
        ]
        self.spans += int(figures[0])
        if not section:
            return
        key = (section, name)
        self._others = self._others or name == OTHERS
        if len(self._found) >= MOST_NAMES and key not in self._found:
            key = (section, OTHERS)
            self._others = True
        have = self._found.get(key)
        if have is None:
            self._found[key] = figures
            return
        have[0] += figures[0]
        have[1] += figures[1]
        have[2] = min(have[2], figures[2])
        have[3] = max(have[3], figures[3])

    def totals(self) -> tuple[Totals, ...]:
        """Return the sums, the longest of each section first."""
        found = [
            Totals(section, name, int(count), *(each / 1e9 for each in times))
            for (section, name), (count, *times) in self._found.items()
        ]
        found.sort(key=lambda each: (each.section, -each.total_s, each.name))
        # "GPU activities" comes before "API calls", as in nvprof's table.
        return tuple(sorted(found, key=lambda each: each.section, reverse=True))

    def problems(self) -> list[str]:
        """Report that names share a sum."""
        if not self._others:
            return []
        text = f"it has over {MOST_NAMES:,} names, or very long ones"
        return [f"{text}; the others are summed up as one"]


def configurations(count: int) -> str:
    """Report that there are more configurations of launches than are listed."""
    return (
        f"of {count:,} configurations of launches"
        f" the {MOST_LAUNCHES:,} that took longest are listed"
    )


FEWEST = 100
"""Names and configurations that each of many files has at least."""


def shared(trace: Trace, files: int) -> Trace:
    """Return a trace with no more than one of so many files may have.

    The configurations that took longest stay. So do the names; the others of their
    section are one.
    """
    most = max(MOST_LAUNCHES // files, FEWEST)
    problems = list(trace.problems)
    if (count := len(trace.launches)) > most:
        problems.append(
            f"of {count:,} configurations of launches the {most:,} that took longest"
            f" are listed, as there are {files} profiles"
        )
    totals = []
    for section in dict.fromkeys(one.section for one in trace.totals):
        every = [one for one in trace.totals if one.section == section]
        totals += every[:most]
        if others := every[most:]:
            totals.append(_together(section, others))
            problems.append(f"{len(others):,} names are summed up as one")
    return replace(
        trace,
        launches=trace.launches[:most],
        totals=tuple(totals),
        problems=tuple(problems),
    )


def _together(section: str, every: Sequence[Totals]) -> Totals:
    return Totals(
        section,
        OTHERS,
        sum(one.count for one in every),
        sum(one.total_s for one in every),
        min(one.min_s for one in every),
        max(one.max_s for one in every),
    )
