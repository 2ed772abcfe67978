"""The kernels and API calls that together take more than 90 % of the time."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from math import inf

from msgspec.structs import replace

from runner.core import CommandRecord, ProfileRow, ProfileTable, RunRecord
from runner.core.evidence import RunEvidence
from runner.core.milestone import ReportedKind
from runner.core.trace import Totals, Trace
from runner.findings import nsys, nvprof
from runner.report.document import commands
from runner.report.document.nouns import TimeShare, TimeShares, TracedFile
from runner.report.profiles import summed, until

KINDS = {
    nvprof.GPU: ReportedKind.KERNELS,
    nsys.KERNELS: ReportedKind.KERNELS,
    nvprof.API: ReportedKind.API_CALLS,
    nsys.API: ReportedKind.API_CALLS,
}
"""What each section of a profile is of; other sections are not in a report."""


def traced(found: RunEvidence) -> tuple[TracedFile, ...]:
    """Return the files of profilers, each with the command that wrote it, in order."""
    return tuple(_traced(found.record, trace) for trace in _ordered(found))


def commanded(found: RunEvidence) -> tuple[Trace, ...]:
    """Return the traces with their commands; where a file has none, its writer's."""
    return tuple(
        trace
        if trace.command or (command := _writer(found.record, trace.path)) is None
        else replace(trace, command=command.text)
        for trace in _ordered(found)
    )


def _ordered(found: RunEvidence) -> list[Trace]:
    """Return the traces as their commands ran; those of no known command are last."""

    def place(trace: Trace) -> float:
        command = _writer(found.record, trace.path)
        return inf if command is None else command.number

    return sorted(found.traces, key=place)


def shares(found: RunEvidence, files: Sequence[TracedFile]) -> Iterator[TimeShares]:
    """Yield the shares of each profile: of its file, else as they were printed."""
    record = found.record
    of_files: dict[tuple[int | None, ReportedKind], list[TimeShares]] = {}
    for file in files:
        for one in _of_file(file):
            of_files.setdefault((one.number, one.kind), []).append(one)
    for command in record.first_round:
        for kind in dict.fromkeys(KINDS.values()):
            if of_command := of_files.pop((command.number, kind), None):
                yield from of_command
                continue
            for table in command.findings.profiles:
                if KINDS.get(table.section) is kind and table.rows:
                    yield _of_table(record, command, table, kind)
    for others in of_files.values():
        yield from others


def _traced(record: RunRecord, trace: Trace) -> TracedFile:
    command = _writer(record, trace.path)
    if command is None:
        return TracedFile(record.id, None, "", commands.script(trace.command), trace)
    script = commands.script(command.text)
    return TracedFile(record.id, command.number, commands.name(command), script, trace)


def _writer(record: RunRecord, path: str) -> CommandRecord | None:
    """Return the command that wrote a file of the build folder, as far as is known."""
    ran = record.first_round
    for command in ran:
        if any(file.path == path for file in command.profile_files):
            return command
    name = re.compile(rf"(?<![\w.-]){re.escape(posixpath.basename(path))}(?![\w.-])")
    return next((c for c in ran if name.search(c.text)), None)


def _of_file(file: TracedFile) -> Iterator[TimeShares]:
    sections: dict[str, list[Totals]] = {}
    for one in file.trace.totals:
        sections.setdefault(one.section, []).append(one)
    for section, totals in sections.items():
        whole = sum(one.total_s for one in totals)
        if section not in KINDS or whole <= 0:
            continue
        rows = [
            ProfileRow(
                one.name,
                100 * one.total_s / whole,
                one.total_s,
                one.count,
                one.total_s / max(one.count, 1),
                one.min_s,
                one.max_s,
            )
            for one in totals
        ]
        shown, rest, count = _cut(rows)
        yield TimeShares(
            run=file.run,
            number=file.number,
            name=file.name,
            script=file.script,
            kind=KINDS[section],
            tool=file.trace.tool,
            section=section,
            variant="",
            images=None,
            file=file.trace.path,
            rows=shown,
            rest=rest,
            rest_rows=count,
        )


def _of_table(
    record: RunRecord, command: CommandRecord, table: ProfileTable, kind: ReportedKind
) -> TimeShares:
    shown, rest, count = _cut(table.rows)
    return TimeShares(
        run=record.id,
        number=command.number,
        name=commands.name(command),
        script=commands.script(command.text),
        kind=kind,
        tool=table.tool,
        section=table.section,
        variant=table.source.variant,
        images=table.source.batch_size,
        file="",
        rows=shown,
        rest=rest,
        rest_rows=count,
    )


def _cut(
    rows: Sequence[ProfileRow],
) -> tuple[tuple[TimeShare, ...], TimeShare | None, int]:
    """Return the rows that pass 90 %, what the others add up to, and their number."""
    ordered = sorted(rows, key=lambda row: -row.percent)
    count = until([row.percent for row in ordered])
    reached, shown = 0.0, []
    for row in ordered[:count]:
        reached += row.percent
        shown.append(_share(row, reached))
    rest = ordered[count:]
    if not rest:
        return tuple(shown), None, 0
    others = summed(rest)
    return tuple(shown), _share(others, reached + others.percent), len(rest)


def _share(row: ProfileRow, reached: float) -> TimeShare:
    return TimeShare(
        row.name,
        row.percent,
        min(reached, 100.0),
        row.total_s,
        row.calls,
        row.avg_s,
        row.min_s,
        row.max_s,
    )
