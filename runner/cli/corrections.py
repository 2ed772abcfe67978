"""What a mistyped command or option may mean."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from runner.core import Problem

ALIKE = 0.7
"""How alike two words are, by difflib, if one is offered for the other."""


def unknown_command(typed: str, commands: Collection[str]) -> Problem:
    """Return the problem of a command that does not exist, with what may be meant."""
    text = f"rai has no command '{typed}'"
    if Path(typed).is_dir():
        hint = f"`rai run {typed}` runs the project in the folder {typed}"
    elif found := alike(typed, commands):
        hint = f"did you mean {' or '.join(f'`rai {name}`' for name in found)}?"
    else:
        hint = "`rai --help` lists the commands"
    return Problem(text, hint=hint)


def correct(error: Any) -> None:  # noqa: ANN401 - typer hides the type
    """Offer fewer options in typer's error: those that are like the one typed."""
    error.possibilities = alike(error.option_name, error.possibilities)


def alike(typed: str, known: Iterable[str]) -> list[str]:
    """Return the words that begin as a word does; if none does, those much like it."""
    known = [*known]
    if found := [name for name in known if name.startswith(typed)]:
        return found
    from difflib import get_close_matches

    bare = {name.lstrip("-"): name for name in known}
    found = get_close_matches(typed.lstrip("-"), bare, cutoff=ALIKE)
    return [bare[name] for name in found]
