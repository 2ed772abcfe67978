"""What the commands of a run are called, and the programs that they run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePath

from runner.core import CommandRecord

LONGEST_NAME = 100
_WORD = re.compile(r"[^\s\"'=;|&()<>]+")
_SCRIPTS = [re.compile(rf"(?<=.)\.{ends}(?![\w.])") for ends in ("py", "sh")]
_IN_COMMON = re.compile(r"^/usr/bin/time (?!-)|\$\{?RAI_SOURCE_DIR\}?/")


def one_line(command: str) -> str:
    """Return a command's first line, with dots if there are more lines."""
    first, more, _ = command.partition("\n")
    return f"{first} ..." if more else first


def main_part(command: str) -> str:
    """Return a command's line without GNU time and the name of the source folder."""
    return _IN_COMMON.sub("", one_line(command))


def called(command: CommandRecord) -> str:
    """Return what a command is called in a table: its name, or its main part."""
    found = " ".join((command.name or main_part(command.text)).split())
    return found if len(found) <= LONGEST_NAME else f"{found[: LONGEST_NAME - 1]}…"


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
