"""Op Times of many runs, commit by commit, as what a plot draws. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

from msgspec import Struct

from runner.core import CommandRecord, Inference, Outcome, RunRecord
from runner.report.axes import TimeAxis, axis
from runner.report.words import day, main_part

MOST_SERIES = 8
"""More lines cannot be told apart."""

LONGEST_S = 1e9
"""What takes longer is no time that a program measured."""

LONGEST_NAME = 60
LONGEST_PLACE = 8
CHANGED = "+"
"""Follows a commit from which the files differed."""

Words = tuple[str, ...]


class PlotPoint(Struct, frozen=True):
    """The Op Times of one series at one place, in seconds, and whose they are."""

    place: int
    times_s: tuple[float, ...]
    runs: tuple[str, ...]

    @property
    def median_s(self) -> float:
        """The median of the times."""
        times, middle = sorted(self.times_s), len(self.times_s) // 2
        return (times[middle] + times[~middle]) / 2


class PlottedSeries(Struct, frozen=True):
    """The Op Times of one script, variant and batch."""

    name: str
    points: tuple[PlotPoint, ...]


class OpTimePlot(Struct, frozen=True):
    """What is drawn: the commits as places, and the series over them.

    ``common`` says what is the same of all series, ``notes`` what is not drawn.
    """

    places: tuple[str, ...]
    series: tuple[PlottedSeries, ...]
    axis: TimeAxis
    common: str = ""
    notes: tuple[str, ...] = ()


def op_time_plot(
    records: Sequence[RunRecord], now: float, word: str | None = None
) -> OpTimePlot | None:
    """Return the plot of runs; None if no command that succeeded printed an Op Time.

    Runs of a commit share a place, where commits are in the order of their first runs.
    A run whose files differ from its commit has a place of its own, marked by a plus,
    and so has one without git. ``word`` is in the name or the text of each command that
    is drawn.
    """
    found: dict[Words, dict[str, list[tuple[float, str]]]] = {}
    places: dict[str, str] = {}
    drawn = 0
    for record in sorted(records, key=lambda one: (one.created_at, one.id)):
        times = list(_times(record, word))
        drawn += bool(times)
        place = _place(record)
        for words, time_s in times:
            places.setdefault(place, _label(record, now))
            there = found.setdefault(words, {}).setdefault(place, [])
            there.append((time_s, record.id))
    if not found:
        return None
    numbers = {place: number for number, place in enumerate(places)}
    most = sorted(found, key=lambda words: -len(found[words]))[:MOST_SERIES]
    kept = [words for words in found if words in most]
    common, names = _names(kept)
    series = tuple(
        PlottedSeries(name, tuple(_points(found[words], numbers)))
        for name, words in zip(names, kept, strict=True)
    )
    changed = any(label.endswith(CHANGED) for label in places.values())
    notes = _notes(len(records) - drawn, len(found) - len(kept), changed=changed)
    every = (t for one in series for point in one.points for t in point.times_s)
    return OpTimePlot(tuple(places.values()), series, axis(every), common, notes)


def _times(record: RunRecord, word: str | None) -> Iterator[tuple[Words, float]]:
    """Yield the Op Times that a run's commands printed, each with what it is of."""
    for command in record.commands:
        if command.outcome is not Outcome.OK or not _has(command, word):
            continue
        seen: Counter[Words] = Counter()
        for one in command.findings.inferences:
            words = _words(record, command, one)
            seen[words] += 1
            again = f"({seen[words]})" if seen[words] > 1 else ""
            time_s = sum(one.op_times_s)
            if one.op_times_s and 0 <= time_s <= LONGEST_S:
                yield (*words, again), time_s


def _has(command: CommandRecord, word: str | None) -> bool:
    return word is None or word in f"{command.name or ''}\n{command.text}"


def _words(record: RunRecord, command: CommandRecord, one: Inference) -> Words:
    source = one.source
    return (
        _short(PurePath(record.project).name),
        _short(command.name or main_part(command.text)),
        _short(source.variant),
        "" if source.batch_size is None else f"batch {source.batch_size}",
        _short(f"under {', '.join(source.under)}") if source.under else "",
    )


def _short(text: str) -> str:
    """Return a text in one line, without its middle if it is long."""
    text = " ".join(text.split())
    if len(text) <= LONGEST_NAME:
        return text
    half = LONGEST_NAME // 2
    return f"{text[: half - 1]}…{text[-half:]}"


def _names(series: Sequence[Words]) -> tuple[str, list[str]]:
    """Return what all series have in common, and what tells each from the others."""
    same = [len(set(column)) == 1 for column in zip(*series, strict=True)]
    if len(series) == 1:
        return "", [_joined(series[0])]
    common = _joined(w for w, is_same in zip(series[0], same, strict=True) if is_same)
    names = [
        _joined(w for w, is_same in zip(words, same, strict=True) if not is_same)
        for words in series
    ]
    return common, [name or "(1)" for name in names]


def _joined(words: Iterable[str]) -> str:
    return ", ".join(word for word in words if word)


def _place(record: RunRecord) -> str:
    git = record.git
    return git.commit if git and not git.dirty else record.id


def _label(record: RunRecord, now: float) -> str:
    if record.git is None:
        return day(record.created_at, now)
    return record.git.commit[:LONGEST_PLACE] + (CHANGED if record.git.dirty else "")


def _points(
    found: dict[str, list[tuple[float, str]]], numbers: dict[str, int]
) -> Iterator[PlotPoint]:
    for place in sorted(found, key=lambda one: numbers[one]):
        times, runs = zip(*found[place], strict=True)
        yield PlotPoint(numbers[place], times, tuple(dict.fromkeys(runs)))


def _notes(undrawn: int, left_out: int, *, changed: bool) -> tuple[str, ...]:
    notes = []
    if changed:
        notes.append(f"{CHANGED}: the files differed from the commit")
    if undrawn:
        runs = "1 run has" if undrawn == 1 else f"{undrawn} runs have"
        notes.append(f"{runs} no Op Time of a command that succeeded")
    if left_out:
        series = "1 series is" if left_out == 1 else f"{left_out} series are"
        notes.append(f"{series} left out, as there are more than {MOST_SERIES}")
    return tuple(notes)
