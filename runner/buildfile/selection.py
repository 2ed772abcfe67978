"""Which commands run (`--only`), and which are repeated (`--repeat`, `--command`)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import Struct

from runner.core import BuildSpec, Command, Problem, quantities
from runner.core.errors import NotAllowedError, UsageError
from runner.core.policy import Policy
from runner.core.samples import MOST_ROUNDS
from runner.yamlfile.fields import resembling

LONGEST_WORD = 100
MOST_RESEMBLING = 1000
"""How many words are compared with those that are not known."""

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
        known = list(islice(selecting(commands), MOST_RESEMBLING // len(wrong)))
        problems = [_problem(f"{option} {w}", w, found[w], known) for w in wrong]
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
    option: str, word: str, found: Sequence[int], known: Sequence[str]
) -> Problem:
    if found:
        numbers = ", ".join(str(n + 1) for n in found)
        text = f"{option}: several commands hold it: {numbers}"
        return Problem(text, hint="use their numbers")
    close = resembling(word, known)
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
    rows = [f"{n} {c.name or _first_line(c.text)}" for n, c in enumerate(commands, 1)]
    return Problem("the commands are: " + "; ".join(rows))


def _first_line(text: str) -> str:
    first, more, _ = text.partition("\n")
    return f"{first} ..." if more else first


class Repeating(Struct, frozen=True):
    """The indexes of the commands to repeat, none if the run decides, and the time."""

    repeated: frozenset[int]
    budget_s: float


def repeating(
    spec: BuildSpec,
    left_out: frozenset[int],
    rules: Policy,
    *,
    repeat: int = 1,
    measured: Sequence[str] = (),
    budget: str | None = None,
) -> Repeating:
    """Return what the options `--repeat`, `--command` and `--budget` ask for.

    Raises:
        UsageError: an option has a wrong value; carries all problems.
        NotAllowedError: the budget is more than a run may take by the site's policy.
    """
    problems = []
    if not 1 <= repeat <= MOST_ROUNDS:
        text = f"--repeat {repeat} is not a number from 1 to {MOST_ROUNDS:,}"
        problems.append(Problem(text))
    repeated = frozenset[int]()
    if measured:
        try:
            repeated = chosen(spec.commands, measured, "--command")
        except UsageError as error:
            problems += error.problems
    for index in sorted(repeated & left_out):
        text = f"--command: --only leaves out command {index + 1}"
        problems.append(Problem(text, hint="name it by --only too"))
    budget_s = spec.limits.time_s
    if budget is not None:
        given = quantities.duration_s(budget)
        if given is None or given <= 0:
            text = f"--budget {budget!r} is not a time span"
            problems.append(Problem(text, hint="write it as `90s`, `10m` or `1h30m`"))
        else:
            budget_s = given
    if problems:
        raise UsageError(*problems)
    ceiling = rules.ceilings.get("time_s")
    if ceiling and budget_s > ceiling.most:
        most = quantities.duration_text(ceiling.most)
        text = f"--budget is {budget}, and at most {most} is allowed"
        raise NotAllowedError(Problem(f"{text} by {ceiling.place}"))
    return Repeating(repeated, budget_s)
