"""The times of a run's commands."""

from __future__ import annotations

from collections.abc import Iterator

from runner.core import RunRecord, TimeUsage
from runner.core.samples import spread
from runner.report.document import commands
from runner.report.document.nouns import RunTime


def run_times(record: RunRecord) -> Iterator[RunTime]:
    """Yield how each command ended and what it took."""
    for command in commands.rounds(record):
        first, shown = command.first, command.shown
        printed = [t for one in shown if (t := _printed(one.findings.time_usage))]
        rss = [1024 * t.max_rss_kb for t in printed if t.max_rss_kb is not None]
        shares = [float(t.cpu_percent) for t in printed if t.cpu_percent is not None]
        yield RunTime(
            run=record.id,
            number=first.number,
            name=commands.name(first),
            command=first.text,
            script=commands.script(first.text),
            outcome=first.outcome,
            exit_code=first.exit_code,
            reason=first.reason,
            why=first.why,
            rounds=len(shown),
            under=first.findings.under,
            wall_s=spread([c.wall_s for c in shown if c.wall_s is not None]),
            cpu_s=spread([c.cpu_s for c in shown if c.cpu_s is not None]),
            elapsed_s=_median([t.elapsed_s for t in printed]),
            user_s=_median([t.user_s for t in printed]),
            system_s=_median([t.system_s for t in printed]),
            cpu_percent=_median(shares),
            max_rss_bytes=max(rss, default=None),
        )


def _printed(found: tuple[TimeUsage, ...]) -> TimeUsage | None:
    """Return what was printed last: that is of the whole command."""
    return found[-1] if found else None


def _median(values: list[float]) -> float | None:
    found = spread(values)
    return found.median if found else None
