"""rai's own lines as text: marked, wrapped and painted for a terminal."""

from __future__ import annotations

from runner.core.screen import MARK, printable
from runner.terminal.look import Look
from runner.terminal.text import RESET, Tone, painted, wrapped

COLOURS = {"red": "1;31", "green": "1;32", "yellow": "1;33", "cyan": "1;36"}
"""The mark's colours. The text keeps the terminal's own, which can be read on any
background; only a failure is all in red."""

WARNING = "Warning:"


def own(text: str, colour: str, look: Look) -> str:
    """Return a line with its mark; its other lines are indented.

    Nothing in the text, which may be a program's or a project's, can look like the
    beginning of such a line.
    """
    text = printable(text)
    if look.width is None:
        found = text.split("\n")
    else:
        indent = text[: len(text) - len(text.lstrip(" "))]
        room = look.width - len(MARK) - 1 - len(indent)
        found = [indent + line for line in wrapped(text.lstrip(" "), room, fold=False)]
    first, *rest = found
    if not look.colour:
        return "\n  ".join((f"{MARK} {first}", *rest)) + "\n"
    mark = RESET + painted(MARK, COLOURS.get(colour, ""))
    if colour == "red":
        first, *rest = (painted(line, Tone.BAD) for line in found)
    elif first.startswith(WARNING):
        first = painted(WARNING, Tone.HEAD) + first.removeprefix(WARNING)
    return "\n  ".join((f"{mark} {first}", *rest)) + "\n"


def marked(line: str, look: Look) -> str:
    """Return a line that is laid out already, with its mark."""
    mark = RESET + painted(MARK, COLOURS["cyan"]) if look.colour else MARK
    return f"{mark} {line}\n"
