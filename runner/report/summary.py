"""The end of a run in a few lines: each command, and what is to be looked at."""

from __future__ import annotations

from collections.abc import Sequence

from runner.core import CommandRecord, Findings, Outcome, RunRecord
from runner.core.quantities import brief
from runner.figures import table
from runner.figures.commands import main_part
from runner.report.blocks import Table
from runner.report.samples import sampled_lines
from runner.report.words import in_round, seconds, words

MOST_ROWS = 9
"""So many commands are listed; of more, those that failed, and then the first."""

MOST_REPEATS = 3
"""So many repeats that went wrong are listed."""


def summary(record: RunRecord) -> tuple[Table | None, list[str]]:
    """Return a row for each command that ran, and lines about what it leaves out."""
    ran = [c for c in record.first_round if c.outcome is not Outcome.SKIPPED]
    wrong = _wrong_repeats(record)
    ran += wrong[:MOST_REPEATS]
    chosen = _chosen(ran)
    rows = tuple(_row(command) for command in chosen)
    heads = ("#", "outcome", "took", "command", "result")
    shown = Table("", heads, rows, frozenset({0, 2})) if rows else None
    lines = []
    if len(ran) > len(chosen):
        lines.append(f"{len(ran) - len(chosen)} more ended well.")
    if len(wrong) > MOST_REPEATS:
        lines.append(f"{len(wrong) - MOST_REPEATS} more repeats went wrong.")
    return shown, [*lines, *sampled_lines(record)]


def listed(record: RunRecord) -> list[CommandRecord]:
    """Return the commands that a list has: each once, and repeats that went wrong."""
    return [*record.first_round, *_wrong_repeats(record)]


def _wrong_repeats(record: RunRecord) -> list[CommandRecord]:
    well = (Outcome.OK, Outcome.RUNNING)
    again = (c for c in record.commands if c.repeats is not None)
    return [c for c in again if c.outcome not in well]


def _chosen(ran: Sequence[CommandRecord]) -> list[CommandRecord]:
    """Return the commands that are listed: all that failed, and the first others."""
    room = MOST_ROWS - sum(c.outcome is not Outcome.OK for c in ran)
    chosen = []
    for command in ran:
        if command.outcome is Outcome.OK:
            room -= 1
            if room < 0:
                continue
        chosen.append(command)
    return chosen


def _row(command: CommandRecord) -> tuple[str, ...]:
    how = words(command.reason) if command.reason else command.outcome.value
    results = [figures(command.findings)]
    if command.exit_code and command.reason is None:
        results.insert(0, f"exit status {command.exit_code}")
    if command.oom_killed:
        results.insert(0, "a process was killed for memory")
    text = command.name or main_part(command.text)
    result = ", ".join(filter(None, results))
    number, how = str(command.number), how + in_round(command)
    return number, how, seconds(command.wall_s), text, result


def figures(found: Findings) -> str:
    """Return a program's main figures in a few words."""
    networks = table.networks(table.of_findings(found, layers=False))
    times = [one.op_time_s.median for one in networks if one.op_time_s]
    answers = list(dict.fromkeys(one.result for one in networks if one.result))
    said = []
    if len(times) == 1:
        said.append(f"op time {brief(times[0])}")
    elif times:
        ends = f"{brief(min(times))} to {brief(max(times))}"
        said.append(f"{len(times)} op times, {ends}")
    if len(answers) > 1:
        said.append(f"{answers[0]} and {len(answers) - 1} other results")
    return ", ".join(said + answers[:1] * (len(answers) == 1))
