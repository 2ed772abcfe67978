"""A run's commands, each with its rounds, and the programs that they run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from msgspec import Struct

from runner.core import CommandRecord, Outcome, RunRecord
from runner.report.words import main_part

LONGEST_NAME = 100
_SCRIPT = re.compile(r"[^\s\"'=;|&()<>]+\.py(?![\w.])")


class CommandRounds(Struct, frozen=True):
    """A command of the build file, and the rounds of it that ended well.

    If none did, ``well`` is empty.
    """

    first: CommandRecord
    well: tuple[CommandRecord, ...]

    @property
    def shown(self) -> tuple[CommandRecord, ...]:
        """The rounds that figures are of: those that ended well, else the first."""
        return self.well or (self.first,)


def rounds(record: RunRecord) -> list[CommandRounds]:
    """Return the commands of the build file, in order, each with its rounds."""
    every: dict[int, list[CommandRecord]] = {}
    for command in record.commands:
        if command.outcome in (Outcome.OK, Outcome.WRONG):
            every.setdefault(command.number, []).append(command)
    return [
        CommandRounds(first, tuple(every.get(first.number, ())))
        for first in record.first_round
    ]


def name(command: CommandRecord) -> str:
    """Return what a command is called in a table: its name, or its main part."""
    found = " ".join((command.name or main_part(command.text)).split())
    return found if len(found) <= LONGEST_NAME else f"{found[: LONGEST_NAME - 1]}…"


def script(text: str) -> str:
    """Return the file name of a command line's first script, else of its program."""
    match = _SCRIPT.search(text)
    words = [match.group()] if match else main_part(text).split()
    return PurePath(words[0]).name if words else ""


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


def least(values: Sequence[float | None]) -> float | None:
    """Return the least of the values that are known; None if none is."""
    return min((value for value in values if value is not None), default=None)
