"""A run's figures by network and by command, and what commands are called."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import PurePath
from typing import Any

from msgspec import Struct

from runner.core import (
    CommandRecord,
    Findings,
    Inference,
    Outcome,
    RunRecord,
    TimeUsage,
)
from runner.core.kernel_shapes import KernelShapes, LayeredNetwork
from runner.core.record import Spread, spread

LONGEST_NAME = 100
_WORD = re.compile(r"[^\s\"'=;|&()<>]+")
_SCRIPTS = [re.compile(rf"(?<=.)\.{ends}(?![\w.])") for ends in ("py", "sh")]
_IN_COMMON = re.compile(r"^/usr/bin/time (?!-)|\$\{?RAI_SOURCE_DIR\}?/")
_WELL = (Outcome.OK, Outcome.WRONG)


def one_line(command: str) -> str:
    """Return a command's first line, with dots if there are more lines."""
    first, more, _ = command.partition("\n")
    return f"{first} ..." if more else first


def main_part(command: str) -> str:
    """Return a command's line without GNU time and the name of the source folder."""
    return _IN_COMMON.sub("", one_line(command))


def called(command: CommandRecord) -> str:
    """Return what a command is called in a table: its name, or its main part."""
    words = (command.name or main_part(command.text)).split()
    return cut(" ".join(words), LONGEST_NAME)


def cut(text: str, most: int, dots: str = "…") -> str:
    """Return a text of at most so many characters; dots stand for its end."""
    return text if len(text) <= most else text[: most - len(dots)] + dots


def program(text: str) -> str:
    """Return the path of a command's script, of Python if any, else its program."""
    for ending in _SCRIPTS:
        for word in _WORD.findall(text):
            if ends := [match.end() for match in ending.finditer(word)]:
                return str(word[: ends[-1]])
    words = main_part(text).split()
    return words[0] if words else ""


def script(text: str) -> str:
    """Return the file name of a command line's first script, else of its program."""
    return PurePath(program(text)).name


def numbered(numbers: Iterable[int]) -> str:
    """Return which commands are meant: command 5, or commands 2, 5 to 8."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    shown = [
        f"{one[0]} to {one[-1]}" if len(one) > 2 else ", ".join(map(str, one))
        for one in found
    ]
    several = len(found) > 1 or any(len(one) > 1 for one in found)
    return f"command{'s' * several} {', '.join(shown)}"


class NetworkFigures(Struct, frozen=True):
    """What a network printed in one command, over all rounds that ended well.

    ``images`` is None if nobody says how many. ``op_times_s`` are those of
    each layer, ``op_time_s`` of their sums. Shares are the least of all rounds;
    ``agreement`` is that with the reference on synthetic images, and no accuracy.
    ``under`` are the profilers that ran along and took time.
    """

    run: str
    number: int
    name: str
    script: str
    variant: str
    images: int | None
    under: tuple[str, ...]
    model: str
    accuracy_class: str
    rounds: int
    op_times_s: tuple[Spread, ...]
    op_time_s: Spread | None
    layer_times_s: tuple[Spread, ...]
    correctness: float | None
    accuracy: float | None
    agreement: float | None
    synthetic: bool

    @property
    def result(self) -> str:
        """What it got right, in words; a synthetic result is never an accuracy."""
        of = f", {self.accuracy_class}" if self.accuracy_class else ""
        if self.agreement is not None:
            return f"agreement {self.agreement:g} (synthetic){of}"
        if self.correctness is not None:
            return f"correctness {self.correctness:g}{of}"
        return "" if self.accuracy is None else f"accuracy {self.accuracy:g}"

    @property
    def title(self) -> str:
        """The script and the variant."""
        return " ".join(filter(None, (self.script, self.variant)))


class CommandTimes(Struct, frozen=True):
    """What a command took: as rai measured it, and as its output says."""

    wall_s: Spread | None = None
    cpu_s: Spread | None = None
    elapsed_s: float | None = None
    user_s: float | None = None
    system_s: float | None = None
    cpu_percent: float | None = None
    max_rss_bytes: int | None = None


def networks(
    record: RunRecord, shapes: KernelShapes | None = None, *, layers: bool = True
) -> tuple[NetworkFigures, ...]:
    """Return what each network of a run printed, command by command.

    Of a command the rounds that ended well count, else the first. Where a program does
    not print how many images it took, ``shapes`` may say so. Without ``layers``, of
    which a program may print very many, only sums of their times are there.
    """
    printed: list[_Printed] = []
    for command in _counted(record):
        where = (record.id, command.number, called(command), script(command.text))
        for place, one in enumerate(command.findings.inferences):
            network = _described(shapes, command.text, one)
            images = one.source.batch_size or (network.batch_size if network else None)
            under = one.source.under or command.findings.under
            printed.append((where, place, command.round, under, images, one))
    return _grouped(printed, layers=layers)


def networks_of(found: Findings, *, layers: bool = True) -> tuple[NetworkFigures, ...]:
    """Return the networks of an output whose commands are known by its lines only."""
    printed: list[_Printed] = []
    for place, one in enumerate(found.inferences):
        source = one.source
        where = ("", source.number or 0, source.command, script(source.command))
        printed.append((where, place, 0, source.under, source.batch_size or None, one))
    return _grouped(printed, layers=layers)


def usages(record: RunRecord) -> list[tuple[int, TimeUsage]]:
    """Return what programs printed of their times in the first round, by command."""
    return [
        (command.number, one)
        for command in _counted(record)
        if command.round == 0
        for one in command.findings.time_usage
    ]


def times(record: RunRecord) -> dict[int, CommandTimes]:
    """Return what each command took, by its number: medians, and the most memory."""
    rounds: dict[int, list[CommandRecord]] = {}
    for command in _counted(record):
        rounds.setdefault(command.number, []).append(command)
    return {number: _times(every) for number, every in rounds.items()}


def _times(every: Sequence[CommandRecord]) -> CommandTimes:
    """Return what the rounds of a command took.

    Times that an output says more than once are those of a command's parts: they do
    not count.
    """

    def known(values: Iterable[Any]) -> list[Any]:
        return [value for value in values if value is not None]

    def median(name: str) -> float | None:
        each = (known(getattr(u, name) for u in c.findings.time_usage) for c in every)
        found = spread([values[0] for values in each if len(values) == 1])
        return found.median if found else None

    rss = known(u.max_rss_kb for c in every for u in c.findings.time_usage)
    return CommandTimes(
        spread(known(command.wall_s for command in every)),
        spread(known(command.cpu_s for command in every)),
        median("elapsed_s"),
        median("user_s"),
        median("system_s"),
        median("cpu_percent"),
        1024 * max(rss) if rss else None,
    )


def _counted(record: RunRecord) -> list[CommandRecord]:
    """Return the commands whose figures count: see ``networks``."""
    well = {c.number for c in record.commands if c.outcome in _WELL}
    counted = [
        c
        for c in record.commands
        if c.outcome in _WELL or (c.number not in well and c.repeats is None)
    ]
    return sorted(counted, key=lambda command: command.number)


def _described(
    shapes: KernelShapes | None, command: str, one: Inference
) -> LayeredNetwork | None:
    if shapes is None:
        return None
    from runner.figures import analysis  # which `rai run` does without

    return analysis.network_of(shapes.networks, command, one)


_Place = tuple[str, int, str, str]
"""A run, the number of its command, the command's name and its script."""

_Printed = tuple[_Place, int, int, tuple[str, ...], int | None, Inference]
"""Where it was printed, as which of the command's and in which round, what ran along,
how many images it is of, and what was printed."""


def _grouped(
    printed: Iterable[_Printed], *, layers: bool
) -> tuple[NetworkFigures, ...]:
    """Return one network for what differs by the round only."""
    groups: dict[tuple[object, ...], list[_Printed]] = {}
    for each in printed:
        (run, number, *_), place, *_, images, one = each
        shares = (one.correctness, one.accuracy, one.agreement)
        if one.op_times_s or shares != (None,) * 3 or (layers and one.layer_times_s):
            work = (one.model or "", one.source.variant, images, one.accuracy_class)
            groups.setdefault((run, number, place, *work), []).append(each)
    return tuple(_network(every, layers=layers) for every in groups.values())


def _network(every: Sequence[_Printed], *, layers: bool) -> NetworkFigures:
    where, _, _, under, images, first = every[0]
    found = [one for *_, one in every]

    def by_layer(times: Iterable[Sequence[float]]) -> tuple[Spread, ...]:
        columns = zip_longest(*times) if layers else ()
        spreads = (spread([v for v in each if v is not None]) for each in columns)
        return tuple(one for one in spreads if one)

    def least(name: str) -> float | None:
        shares = (getattr(one, name) for one in found)
        return min((share for share in shares if share is not None), default=None)

    return NetworkFigures(
        *where,
        variant=first.source.variant,
        images=images,
        under=under,
        model=first.model or "",
        accuracy_class=first.accuracy_class,
        rounds=len({one[2] for one in every}),
        op_times_s=by_layer(one.op_times_s for one in found),
        op_time_s=spread([sum(one.op_times_s) for one in found if one.op_times_s]),
        layer_times_s=by_layer(one.layer_times_s for one in found),
        correctness=least("correctness"),
        accuracy=least("accuracy"),
        agreement=least("agreement"),
        synthetic=any(one.synthetic for one in found),
    )
