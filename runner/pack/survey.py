"""What of a project folder would be sent, what would not, and why not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from runner.model import Problem
from runner.pack.caps import Caps


class Kind(StrEnum):
    """What a member of an archive is."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"


@dataclass(frozen=True, slots=True)
class Member:
    """One thing to be sent; ``name`` is relative, with slashes."""

    name: str
    kind: Kind
    size_bytes: int = 0
    executable: bool = False
    target: str = ""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """One thing that stays; a folder's name ends with a slash and stands for all in it.

    ``why`` is the rule with its place (``.gitignore:3: *.o``) or a sentence.
    """

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Survey:
    """What `rai run --dry-run` shows and ``pack`` sends.

    ``rules`` is the file whose rules count, "" for none. ``problems`` are folders that
    could not be read: ``pack`` refuses because of them.
    """

    project: Path
    rules: str
    members: tuple[Member, ...]
    left_out: tuple[LeftOut, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def total_bytes(self) -> int:
        """Size of all files together."""
        return sum(m.size_bytes for m in self.members)

    def largest(self, count: int = 5) -> list[Member]:
        """Give the biggest files first."""
        raise NotImplementedError

    def over(self, caps: Caps) -> list[Problem]:
        """Say which ceilings this goes over, naming the largest entries."""
        raise NotImplementedError


def survey(project: Path) -> Survey:
    """Look through the project folder by its ignore rules."""
    raise NotImplementedError
