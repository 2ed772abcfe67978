"""Which commands `--only` leaves out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from runner.core import Command, Problem
from runner.core.errors import UsageError
from runner.report import one_line
from runner.yamlfile.fields import resembling

LONGEST_WORD = 100
MOST_RESEMBLING = 1000
"""How many words are compared with one that is not known."""

_NUMBER = re.compile("[0-9]{1,9}")
_WORD = re.compile(r"(?<![\w.-])\w[\w.-]*")
_ENDING = re.compile(r"\.(?!\d)")


def left_out(commands: Sequence[Command], only: Sequence[str]) -> frozenset[int]:
    """Return the indexes of the commands that are not named; none if nothing is.

    A word is a command's name, its number from 1, or a word that stands in one command
    alone, such as a milestone's (``m2.1``).

    Raises:
        UsageError: a word names no command, or several; carries each such word.
    """
    if not only:
        return frozenset()
    return frozenset(range(len(commands))) - chosen(commands, only, "--only")


def chosen(
    commands: Sequence[Command], words: Sequence[str], option: str
) -> frozenset[int]:
    """Return the indexes of the commands that the words of an option name.

    Raises:
        UsageError: as ``left_out`` does.
    """
    found = {word: _named(commands, word) for word in words}
    names = [command.name for command in commands if command.name]
    if wrong := [w for w, one in found.items() if len(one) != 1 and w not in names]:
        problems = (_problem(commands, f"{option} {w}", w, found[w]) for w in wrong)
        raise UsageError(*problems, _listed(commands))
    return frozenset().union(*found.values())


def _named(commands: Sequence[Command], word: str) -> list[int]:
    if by_name := [n for n, command in enumerate(commands) if command.name == word]:
        return by_name
    if _NUMBER.fullmatch(word):
        return [n for n in range(len(commands)) if n + 1 == int(word)]
    # Of `m2` and `m2.1` neither stands in a command that holds the other.
    alone = re.compile(rf"(?<![\w.-]){re.escape(word)}(?![\w-]|\.\d)")
    return [n for n, command in enumerate(commands) if alone.search(command.text)]


def _problem(
    commands: Sequence[Command], option: str, word: str, found: Sequence[int]
) -> Problem:
    if found:
        numbers = ", ".join(str(n + 1) for n in found)
        text = f"{option}: several commands hold it: {numbers}"
        return Problem(text, hint="use their numbers")
    close = resembling(word, list(islice(selecting(commands), MOST_RESEMBLING)))
    hint = f"did you mean `{close}`?" if close else ""
    return Problem(f"{option}: no such command", hint=hint)


def selecting(commands: Sequence[Command]) -> Iterator[str]:
    """Yield the names of commands, and the words that stand in one command alone."""
    names = {command.name for command in commands}
    count = Counter(word for one in commands for word in set(_words(one.text)))
    for command in commands:
        if command.name:
            yield command.name
        for word in _words(command.text):
            known = word in names or _NUMBER.fullmatch(word)
            if count[word] == 1 and not known:
                yield word


def _words(text: str) -> Iterator[str]:
    """Yield the words that stand alone in a command, also without a file's ending."""
    for word in _WORD.findall(text):
        if len(word) <= LONGEST_WORD:
            yield word
            yield from (word[: end.start()] for end in _ENDING.finditer(word))


def _listed(commands: Sequence[Command]) -> Problem:
    rows = [f"{n} {c.name or one_line(c.text)}" for n, c in enumerate(commands, 1)]
    return Problem("the commands are: " + "; ".join(rows))
