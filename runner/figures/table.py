"""One table of a run's figures, made once of its record, and commands' names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import PurePath

from msgspec import Struct

from runner.core import CommandRecord, Findings, Inference, Outcome, RunRecord, Source
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


class FigureKind(StrEnum):
    """What a figure is; times are in seconds, memory in bytes, shares from 0 to 1."""

    OP_TIME = "op_time"
    LAYER_TIME = "layer_time"
    CORRECTNESS = "correctness"
    ACCURACY = "accuracy"
    AGREEMENT = "agreement"
    WALL = "wall"
    CPU = "cpu"
    ELAPSED = "elapsed"
    USER = "user"
    SYSTEM = "system"
    CPU_PERCENT = "cpu_percent"
    MEMORY = "memory"


class Figure(Struct, frozen=True):
    """One value, and what it is of.

    ``command`` is the command's number from 1, ``name`` what it is called, ``script``
    its program's file. ``model``, ``variant`` and ``images`` are the network's, "" and
    None where that is not known. ``layer`` is the layer's number from 1, "" for all of
    them. ``profiled`` names the profilers that ran along and took time. ``place`` is
    which network of the command's output it is of, ``round`` the command's round.
    """

    run: str
    command: int
    name: str
    script: str
    figure: FigureKind
    value: float
    model: str = ""
    variant: str = ""
    images: int | None = None
    layer: str = ""
    profiled: tuple[str, ...] = ()
    place: int = 0
    round: int = 0
    accuracy_class: str = ""
    synthetic: bool = False

    @property
    def network(self) -> tuple[object, ...]:
        """What figures of one network in one command have in common."""
        work = (self.model, self.variant, self.images, self.accuracy_class)
        return (self.run, self.command, self.place, *work)


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


def of(
    record: RunRecord, shapes: KernelShapes | None = None, *, layers: bool = True
) -> tuple[Figure, ...]:
    """Return the figures of a run, command by command.

    Of a command the rounds that ended well count, else the first. Where a program does
    not print how many images it took, ``shapes`` may say so. Without ``layers``, of
    which a program may print very many, only sums of their times are there.
    """
    well = {c.number for c in record.commands if c.outcome in _WELL}
    found: list[Figure] = []
    for command in record.commands:
        failed = command.number not in well and command.repeats is None
        if failed or command.outcome in _WELL:
            found += of_command(command, record.id, shapes, layers=layers)
    return tuple(sorted(found, key=lambda one: one.command))


def of_findings(found: Findings, *, layers: bool = True) -> tuple[Figure, ...]:
    """Return the figures of an output whose commands are known by its lines only."""
    return (
        *(
            figure
            for place, one in enumerate(found.inferences)
            for figure in _of_inference(
                _place("", one.source), one, place, layers=layers
            )
        ),
        *_of_times(found, lambda source: _place("", source)),
    )


Place = tuple[str, int, str, str]
"""A run, the number of its command, the command's name and its script."""


def _place(run: str, source: Source) -> Place:
    return run, source.number or 0, source.command, script(source.command)


def of_command(
    command: CommandRecord,
    run: str = "",
    shapes: KernelShapes | None = None,
    *,
    layers: bool = True,
) -> Iterator[Figure]:
    """Yield the figures of one round of a command, however it ended."""
    where = (run, command.number, called(command), script(command.text))
    measured = ((FigureKind.WALL, command.wall_s), (FigureKind.CPU, command.cpu_s))
    for kind, value in measured:
        if value is not None:
            yield Figure(*where, kind, value, round=command.round)
    found = command.findings
    yield from _of_times(found, lambda _: where, command.round)
    for place, one in enumerate(found.inferences):
        network = _described(shapes, command.text, one)
        images = network.batch_size if network else None
        under = one.source.under or found.under
        about = (place, command.round, under, images)
        yield from _of_inference(where, one, *about, layers=layers)


def _of_times(
    found: Findings, where: Callable[[Source], Place], round_: int = 0
) -> Iterator[Figure]:
    for place, one in enumerate(found.time_usage):
        rss = None if one.max_rss_kb is None else 1024 * one.max_rss_kb
        printed = (
            (FigureKind.ELAPSED, one.elapsed_s),
            (FigureKind.USER, one.user_s),
            (FigureKind.SYSTEM, one.system_s),
            (FigureKind.CPU_PERCENT, one.cpu_percent),
            (FigureKind.MEMORY, rss),
        )
        for kind, value in printed:
            if value is not None:
                yield Figure(*where(one.source), kind, value, place=place, round=round_)


def _of_inference(
    where: Place,
    one: Inference,
    place: int,
    round_: int = 0,
    under: tuple[str, ...] = (),
    images: int | None = None,
    *,
    layers: bool,
) -> Iterator[Figure]:
    source = one.source
    values: list[tuple[FigureKind, float | None, str]] = [
        (kind, value, str(i + 1))
        for kind, every in (
            (FigureKind.OP_TIME, one.op_times_s),
            (FigureKind.LAYER_TIME, one.layer_times_s),
        )
        for i, value in enumerate(every if layers else ())
    ]
    total = sum(one.op_times_s) if one.op_times_s else None
    values += [
        (FigureKind.OP_TIME, total, ""),
        (FigureKind.CORRECTNESS, one.correctness, ""),
        (FigureKind.ACCURACY, one.accuracy, ""),
        (FigureKind.AGREEMENT, one.agreement, ""),
    ]
    for kind, value, layer in values:
        if value is not None:
            yield Figure(
                *where,
                kind,
                value,
                one.model or "",
                source.variant,
                source.batch_size or images,
                layer,
                under or source.under,
                place,
                round_,
                one.accuracy_class,
                one.synthetic,
            )


def _described(
    shapes: KernelShapes | None, command: str, one: Inference
) -> LayeredNetwork | None:
    if shapes is None:
        return None
    from runner.figures import analysis  # which `rai run` does without

    return analysis.network_of(shapes.networks, command, one)


def networks(found: Iterable[Figure]) -> tuple[NetworkFigures, ...]:
    """Return what each network printed, command by command."""
    groups: dict[tuple[object, ...], list[Figure]] = {}
    for figure in found:
        if figure.figure in _OF_NETWORKS:
            groups.setdefault(figure.network, []).append(figure)
    return tuple(map(_network, groups.values()))


_OF_NETWORKS = (
    FigureKind.OP_TIME,
    FigureKind.LAYER_TIME,
    FigureKind.CORRECTNESS,
    FigureKind.ACCURACY,
    FigureKind.AGREEMENT,
)


def _network(found: Sequence[Figure]) -> NetworkFigures:
    first = found[0]
    by_layer: dict[tuple[FigureKind, str], list[float]] = {}
    for one in found:
        by_layer.setdefault((one.figure, one.layer), []).append(one.value)

    def layers(kind: FigureKind) -> tuple[Spread, ...]:
        each = (v for (of, layer), v in by_layer.items() if of is kind and layer)
        return tuple(s for values in each if (s := spread(values)))

    def least(kind: FigureKind) -> float | None:
        return min(by_layer.get((kind, ""), ()), default=None)

    return NetworkFigures(
        run=first.run,
        number=first.command,
        name=first.name,
        script=first.script,
        variant=first.variant,
        images=first.images,
        under=first.profiled,
        model=first.model,
        accuracy_class=first.accuracy_class,
        rounds=len({one.round for one in found}),
        op_times_s=layers(FigureKind.OP_TIME),
        op_time_s=spread(by_layer.get((FigureKind.OP_TIME, ""), [])),
        layer_times_s=layers(FigureKind.LAYER_TIME),
        correctness=least(FigureKind.CORRECTNESS),
        accuracy=least(FigureKind.ACCURACY),
        agreement=least(FigureKind.AGREEMENT),
        synthetic=any(one.synthetic for one in found),
    )


def times(found: Iterable[Figure]) -> dict[int, CommandTimes]:
    """Return what each command took, by its number: medians, and the most memory.

    Times that an output says more than once are those of a command's parts: they do
    not count.
    """
    parts: dict[tuple[int, FigureKind, int], list[float]] = {}
    for one in found:
        if one.figure not in _OF_NETWORKS:
            parts.setdefault((one.command, one.figure, one.round), []).append(one.value)
    values: dict[int, dict[FigureKind, list[float]]] = {}
    for (command, kind, _), said in parts.items():
        if len(said) == 1 or kind is FigureKind.MEMORY:
            values.setdefault(command, {}).setdefault(kind, []).append(max(said))

    def median(every: dict[FigureKind, list[float]], kind: FigureKind) -> float | None:
        known = spread(every.get(kind, []))
        return known.median if known else None

    return {
        command: CommandTimes(
            spread(every.get(FigureKind.WALL, [])),
            spread(every.get(FigureKind.CPU, [])),
            median(every, FigureKind.ELAPSED),
            median(every, FigureKind.USER),
            median(every, FigureKind.SYSTEM),
            median(every, FigureKind.CPU_PERCENT),
            int(max(every[FigureKind.MEMORY])) if FigureKind.MEMORY in every else None,
        )
        for command, every in values.items()
    }
