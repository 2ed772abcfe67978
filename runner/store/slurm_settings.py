"""The group ``slurm`` of the settings: what values it has, and which are refused."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from runner.core import Problem
from runner.core.quantities import Kind
from runner.slurm.options import SlurmOptions
from runner.slurm.target import PLACE

EXTRA = f"{PLACE}.extra"
_LONGEST = 4000


def _name(text: str) -> str | None:
    return text if text.isprintable() and len(text) <= _LONGEST else None


def _words(text: str) -> tuple[str, ...] | None:
    if len(text) > _LONGEST:
        return None
    try:
        return tuple(shlex.split(text)) or None
    except ValueError:  # a quote without its end
        return None


def _python(text: str) -> str | None:
    path = Path(text).expanduser()
    return str(path) if path.is_absolute() and text.isprintable() else None


NAME = Kind("as Slurm knows it", _name)
WORDS = Kind("words as for a shell, such as --nice=10", _words, shlex.join)
PYTHON = Kind("the whole path of a program", _python)


def options(values: Mapping[str, Any]) -> SlurmOptions:
    """Return the group as one value, from the values of all settings by their keys."""
    start = f"{PLACE}."
    named = {k.removeprefix(start): v for k, v in values.items() if k.startswith(start)}
    return SlurmOptions(**named)


def refused(words: Sequence[str], origin: str) -> Iterator[Problem]:
    """Yield why words cannot be added to sbatch; ``origin`` is what says them."""
    from runner.slurm import extra  # few have any

    for problem in extra.refused(words):
        yield Problem(f"{EXTRA} ({origin}): {problem.message}", hint=problem.hint)
