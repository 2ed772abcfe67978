"""Milestones by name, from files of this folder and of a site's own.

    find("final", folders)      # Milestone; UsageError for an unknown name

A site's file wins over ours of the same name. It is ``NAME.yml``, or
``NAME/milestone.yml`` with what belongs to it beside it: docs/teach.md.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from msgspec.structs import replace

from runner.core import Problem
from runner.core.errors import ConfigError, UsageError
from runner.core.milestone import Milestone
from runner.spec.fields import resembling
from runner.spec.milestones import folder as own
from runner.spec.milestones import reader
from runner.system import files

OURS = Path(__file__).parent
MOST_BYTES = 256 << 10
"""A larger file is refused."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def find(name: str, folders: Sequence[Path] = ()) -> Milestone:
    """Return a milestone by its name, in any case; a folder's files win over ours.

    Raises:
        UsageError: there is none; the message lists those that there are.
        ConfigError: its file is wrong, or a folder cannot be read; carries every
            problem.
    """
    raw, file = read(name, folders)
    if file.name != own.FILE:
        return _parsed(raw, str(file), name.lower())
    there = os.path.lexists(file.parent / own.STAFF.name)
    staff = own.staff(file.parent) if there else own.Staff()
    found = reader.parse(raw, str(file), name.lower(), staff)
    return replace(found, folder=str(file.parent))


@lru_cache(64)
def _parsed(raw: bytes, file: str, name: str) -> Milestone:
    """Return the milestone of a file; a server asks for the same again and again."""
    return reader.parse(raw, file, name, own.Staff())


def read(name: str, folders: Sequence[Path] = ()) -> tuple[bytes, Path]:
    """Return the bytes of a milestone's file, and the file; raise as ``find`` does."""
    known = names(folders)
    file = known.get(name.lower())
    if file is None:
        close = resembling(name, known)
        hint = f"did you mean {close}? " if close else ""
        hint += f"there are {', '.join(known)}"
        raise UsageError(Problem(f"no milestone {name!r}", hint=hint))
    try:
        return files.read(file, MOST_BYTES), file
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error


def names(folders: Sequence[Path] = ()) -> dict[str, Path]:
    """Return the names of all milestones with their files, in order of name.

    Raises:
        ConfigError: a folder cannot be read, or two of its files have one name.
    """
    found: dict[str, Path] = {}
    problems: list[Problem] = []
    for folder in (OURS, *reversed(folders)):
        try:
            inside = sorted(
                file
                for path in folder.iterdir()
                if not path.name.startswith(".")
                for file in (path if path.suffix == ".yml" else path / own.FILE,)
                if file is path or file.is_file()
            )
        except OSError as error:
            hint = "correct the setting `milestones`"
            text = f"the milestones' folder {folder} cannot be read: {error.strerror}"
            problems.append(Problem(text, hint=hint))
            continue
        here: dict[str, Path] = {}
        for file in inside:
            name = file.parent.name if file.parent != folder else file.stem
            if not _NAME.fullmatch(name):
                text = f"{file}: {name!r} is no name of a milestone"
                hint = "use letters, digits, `_`, `-` and `.`"
                problems.append(Problem(text, hint=hint))
            elif other := here.get(name.lower()):
                text = f"{other} and {file} are one milestone's name"
                problems.append(Problem(text, hint="remove or rename one"))
            else:
                here[name.lower()] = file
        found |= here
    if problems:
        raise ConfigError(*problems)
    return dict(sorted(found.items()))
