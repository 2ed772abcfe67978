"""The end of a run in a few lines, and what became faster or wrong since another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runner.core import CommandRecord, Findings, Outcome, RunRecord
from runner.core.quantities import brief
from runner.core.record import CommandSamples, Spread, samples
from runner.figures import table
from runner.figures.printed import is_wrong
from runner.figures.table import NetworkFigures, main_part, one_line
from runner.report.blocks import Table
from runner.report.pairs import Pair, alike, identity, networks, paired
from runner.report.phrases import in_round, seconds, titled, words

MOST_ROWS = 9
"""So many commands are listed: those that failed, with figures, and then the first."""

MOST_REPEATS = 3
"""So many repeats that went wrong are listed."""

NOISE, LEAST_WALL_S = 0.05, 0.25
"""Smaller differences, as a share of the time, and of a command in all, are noise."""

LEAST_FACTOR = 1.5
"""From here on a change is a factor: percentages of speed and of time are mistaken."""

MOST = 3
LONGEST = 24


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


def sampled(record: RunRecord) -> list[Table]:
    """Return a table of the commands that were repeated; none if there are none."""
    rows = tuple(
        (str(one.number), titled(one.name, one.text), figure, str(found.n), *times)
        for one in samples(record)
        for figure, found, times in _figures(one)
    )
    heads = ("#", "command", "figure", "rounds", "median", "smallest", "largest")
    return [Table("Samples", heads, rows, frozenset({0, 3, 4, 5, 6}))] if rows else []


def sampled_lines(record: RunRecord) -> list[str]:
    """Return a line for each command that was repeated."""
    lines = []
    for one in samples(record):
        parts = []
        for figure, found, (median, smallest, largest) in _figures(one):
            value, _, unit = smallest.partition(" ")
            if " " not in unit and largest.partition(" ")[2] == unit:
                smallest = value  # the unit once
            few = f"; printed in {found.n} only" if found.n != one.wall_s.n else ""
            parts.append(f"{figure} {median} ({smallest} to {largest}{few})")
        name = one.name or main_part(one.text)
        which = f"Command {one.number} ({name}), median of {one.wall_s.n} rounds"
        lines.append(f"{which}: {', '.join(parts)}.")
    return lines


def _figures(one: CommandSamples) -> Iterator[tuple[str, Spread, list[str]]]:
    """Yield each figure with its median, its smallest and its largest value."""
    known = (("op time", one.op_time_s, brief), ("wall", one.wall_s, seconds))
    for figure, found, text in known:
        if found:
            values = (found.median, found.smallest, found.largest)
            yield figure, found, list(map(text, values))


def _wrong_repeats(record: RunRecord) -> list[CommandRecord]:
    well = (Outcome.OK, Outcome.RUNNING)
    again = (c for c in record.commands if c.repeats is not None)
    return [c for c in again if c.outcome not in well]


def _chosen(ran: Sequence[CommandRecord]) -> list[CommandRecord]:
    """Return the commands that are listed, in their order."""
    well = [command for command in ran if not _not_well(command)]
    room = max(MOST_ROWS - (len(ran) - len(well)), 0)
    chosen = sorted(well, key=lambda c: not c.findings.inferences)[:room]
    return [command for command in ran if _not_well(command) or command in chosen]


def _not_well(command: CommandRecord) -> bool:
    return command.outcome is not Outcome.OK or is_wrong(command.findings)


def _row(command: CommandRecord) -> tuple[str, ...]:
    how = words(command.reason) if command.reason else command.outcome.value
    results = [figures(command.findings)]
    if command.outcome is Outcome.FAILED or is_wrong(command.findings):
        results.insert(0, command.findings.mistake)
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
    networks = table.networks_of(found, layers=False)
    times = [one.op_time_s.median for one in networks if one.op_time_s]
    answers = list(dict.fromkeys(one.result for one in networks if one.result))
    parts = []
    if len(times) == 1:
        parts.append(f"op time {brief(times[0])}")
    elif times:
        ends = f"{brief(min(times))} to {brief(max(times))}"
        parts.append(f"{len(times)} op times, {ends}")
    if len(answers) > 1:
        parts.append(f"{answers[0]} and {len(answers) - 1} other results")
    return ", ".join(parts + answers[:1] * (len(answers) == 1))


class Series:
    """Runs of a project one after another, each compared with those before it."""

    def __init__(self) -> None:
        self._latest: RunRecord | None = None
        self._good: RunRecord | None = None

    def add(self, run: RunRecord) -> list[str]:
        """Return a line that compares the run with the latest.

        If that failed and this one did not, a second line compares it with the latest
        that did not: a run that failed has no times to compare.
        """
        ran = run.verdict is not None and run.verdict.ran
        earlier = [self._latest]
        if ran and self._good is not self._latest:
            earlier.append(self._good)
        self._latest = run
        self._good = run if ran else self._good
        return [versus(one, run) for one in earlier if one is not None]


def versus(before: RunRecord, after: RunRecord) -> str:
    """Return the line; commands are the same if their names or texts are."""
    matched = paired(before.first_round, after.first_round, identity)
    pairs = [(one, other) for one, other in matched if one and other]
    printed = (networks(before, layers=False), networks(after, layers=False))
    compared = [(*pair, alike(pair, *printed)) for pair in pairs]
    parts = [text for each in compared for text in _results(*each)]
    timings = [timing for each in compared for timing in _timings(*each)]
    notable = sorted(timing for timing in timings if timing[0] <= -NOISE)
    parts += [text for _, text in notable[:MOST]]
    if len(notable) > MOST:
        parts.append(f"and {len(notable) - MOST} other times")
    if not parts and timings:
        parts = [f"no time changed by more than {100 * NOISE:.0f} %"]
    what = "; ".join(parts) or "there is nothing to compare"
    return f"Since run {before.id}: {what}."


def _shown(command: CommandRecord) -> str:
    text = one_line(identity(command))
    return f"`{text}`" if len(text) <= LONGEST else f"command {command.index + 1}"


def _results(
    before: CommandRecord, after: CommandRecord, found: Sequence[Pair[NetworkFigures]]
) -> Iterator[str]:
    """Yield what became right or wrong."""
    states = before.outcome, after.outcome
    if states == (Outcome.OK, Outcome.FAILED):
        yield f"{_shown(after)} fails now"
    elif states == (Outcome.FAILED, Outcome.OK):
        yield f"{_shown(after)} works now"
    for one, other in found:
        if one and other and one.result != other.result:
            was = one.result.rpartition(" ")[2] or "none"
            yield f"{other.result or 'no correctness'} (was {was})"


def _timings(
    before: CommandRecord, after: CommandRecord, found: Sequence[Pair[NetworkFigures]]
) -> Iterator[tuple[float, str]]:
    """Yield the times that both have, of commands that succeeded, as ``_timing``."""
    if (before.outcome, after.outcome) != (Outcome.OK, Outcome.OK):
        return
    for number, (one, other) in enumerate(found, 1):
        which = f" {number}" if len(found) > 1 else ""
        if one and other and one.op_time_s and other.op_time_s:
            times = one.op_time_s.median, other.op_time_s.median
            if all(times):
                yield _timing(f"op time{which} of {_shown(after)}", *times)
    walls = before.wall_s or 0.0, after.wall_s or 0.0
    if all(walls):
        differ = abs(walls[1] - walls[0]) >= LEAST_WALL_S
        yield _timing(_shown(after), walls[0], walls[1] if differ else walls[0])


def _timing(what: str, before_s: float, after_s: float) -> tuple[float, str]:
    """Return minus the change, as a share of the longer time, and both times in words.

    A large change is a factor there, another a share of the time before.
    """
    ratio = after_s / before_s
    how = f"{100 * abs(ratio - 1):.0f} % {'more' if ratio > 1 else 'less'} time"
    if ratio >= LEAST_FACTOR:
        how = f"{ratio:.1f} times as long"
    elif 1 / ratio >= LEAST_FACTOR:
        how = f"{1 / ratio:.1f} times as fast"
    changed = abs(after_s - before_s) / max(after_s, before_s)
    return -changed, f"{what} {seconds(after_s)} (was {seconds(before_s)}, {how})"
