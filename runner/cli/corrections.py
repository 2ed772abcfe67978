"""What a mistyped command or option may mean."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
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
        hint = _meant([f"rai {name}" for name in found])
    else:
        hint = "`rai --help` lists the commands"
    return Problem(text, hint=hint)


def problem(error: Any, command: str, commands: Collection[str]) -> Problem:  # noqa: ANN401 - typer hides the type
    """Return what is wrong with a command line, from typer's error about it.

    ``commands`` are those of the group that reported it.
    """
    context = getattr(error, "ctx", None)
    command = context.command_path if context else command
    text, hint = _finding(error, command, commands)
    return Problem(text, hint=hint or f"`{command} --help` shows what it takes")


def _finding(
    error: Any,  # noqa: ANN401 - typer hides the type
    command: str,
    commands: Collection[str],
) -> tuple[str, str]:
    """Return what is wrong, and what to do if that is known."""
    message: str = error.format_message().removesuffix(".")
    option = getattr(error, "option_name", None)
    if option and message.startswith("No such option"):
        found = alike(option, error.possibilities or ())
        return f"{command} has no option {option}", _meant(found)
    if option:
        what = "needs a value" if "requires" in message else "takes no value"
        return f"{option} {what}", ""
    parameter = getattr(error, "param", None)
    if parameter is not None and message.startswith("Missing argument"):
        name = parameter.make_metavar(error.ctx).strip("{}")
        if name.startswith("RUN"):
            return "which run?", f"for the last one: {command} latest"
        return f"{name} is missing", ""
    least = getattr(getattr(parameter, "type", None), "min", None)
    if parameter is not None and least is not None:
        value = error.message.partition(" is not ")[0].strip("'")
        expected = f"a whole number of at least {least}"
        return f'{parameter.opts[0]} is "{value}"; expected {expected}', ""
    if typed := re.fullmatch(r"No such command '(.*?)'.*", message, re.DOTALL):
        found = alike(typed[1], commands)
        meant = [f"{command} {name}" for name in found]
        return f"{command} has no command '{typed[1]}'", _meant(meant)
    if extra := re.fullmatch(
        r"Got unexpected extra argument\(s\) \((.*)\)", message, re.DOTALL
    ):
        return f"{command} does not take '{extra[1]}'", ""
    return f"{command}: {message[:1].lower()}{message[1:]}", ""


def _meant(found: Sequence[str]) -> str:
    words = " or ".join(f"`{word}`" for word in found)
    return f"did you mean {words}?" if words else ""


def alike(typed: str, known: Iterable[str]) -> list[str]:
    """Return the words that begin as a word does; if none does, those much like it."""
    known = [*known]
    if found := [name for name in known if name.startswith(typed)]:
        return found
    from difflib import get_close_matches

    bare = {name.lstrip("-"): name for name in known}
    found = get_close_matches(typed.lstrip("-"), bare, cutoff=ALIKE)
    return [bare[name] for name in found]
