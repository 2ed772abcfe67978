"""Which command, network or table of one run pairs with which of another."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from runner.core import CommandRecord, RunRecord
from runner.figures import table
from runner.figures.table import NetworkFigures

T = TypeVar("T")
Pair = tuple[T | None, T | None]


def paired(
    before: Iterable[T], after: Iterable[T], *keys: Callable[[T], Hashable]
) -> list[Pair[T]]:
    """Pair items by the first of ``keys`` that both have alike, each item once.

    The first of several with a key belongs to the first of the other side. The order is
    that of ``after``; items of ``before`` that have no partner follow.
    """
    old, new = list(before), list(after)
    partner: dict[int, int] = {}
    left = list(range(len(old)))
    for key in keys:
        waiting: dict[Hashable, deque[int]] = defaultdict(deque)
        for index in left:
            waiting[key(old[index])].append(index)
        for index, item in enumerate(new):
            if index not in partner and (found := waiting.get(key(item))):
                partner[index] = found.popleft()
        left = sorted(index for each in waiting.values() for index in each)
    pairs: list[Pair[T]] = [
        (old[partner[index]] if index in partner else None, item)
        for index, item in enumerate(new)
    ]
    return [*pairs, *((old[index], None) for index in left)]


def commands(
    before: Sequence[CommandRecord], after: Sequence[CommandRecord]
) -> list[Pair[CommandRecord]]:
    """Pair the commands of two runs by their names, or else by their texts."""
    return paired(before, after, identity, lambda command: command.text)


Networks = Mapping[int, Sequence[NetworkFigures]]
"""What the networks of a run printed, by the number of their command."""


def networks(run: RunRecord, *, layers: bool = True) -> Networks:
    """Return the figures of a run's networks, of all rounds."""
    found: dict[int, list[NetworkFigures]] = {}
    for one in table.networks(run, layers=layers):
        found.setdefault(one.number, []).append(one)
    return found


def alike(
    pair: Pair[CommandRecord], before: Networks, after: Networks
) -> list[Pair[NetworkFigures]]:
    """Pair the networks of a command by model, variant and images, else in order."""
    one, other = pair
    return paired(
        before.get(one.number, ()) if one else (),
        after.get(other.number, ()) if other else (),
        lambda n: (n.model, n.variant, n.images, n.accuracy_class),
        lambda n: (n.model, n.variant, n.images),
        lambda n: n.variant,
        lambda _: None,
    )


def identity(command: CommandRecord) -> str:
    """Return what tells a command from the others of its run: its name or its text."""
    return command.name or command.text


def aligned(before: RunRecord, after: RunRecord) -> RunRecord:
    """Return the earlier record with its commands numbered and named as in the later.

    Commands of a build file that the later run does not have are left out: a figure
    belongs to the command that printed it, not to its place in the file.
    """
    pairs = commands(before.first_round, after.first_round)
    partner = {one.index: other for one, other in pairs if one and other}
    kept = []
    for command in before.commands:
        first = command.index if command.repeats is None else command.repeats
        if (other := partner.get(first)) is None:
            continue
        if command.repeats is None:
            kept.append(replace(command, index=other.index, name=other.name))
        else:
            kept.append(replace(command, repeats=other.index, name=other.name))
    return replace(before, commands=tuple(kept))
