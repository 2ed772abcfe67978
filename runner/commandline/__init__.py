"""Turn a command line into what is exec'd: a program, or a shell with a script.

Words are split as by a POSIX shell. A line with unquoted operators, expansions or
globs, a leading assignment or a builtin is run by a shell, in which its quoted parts
stay literal. Any other line is exec'd directly.
"""

from __future__ import annotations

from runner.commandline import shell
from runner.commandline.problems import problems, unclosed
from runner.core import Invocation
from runner.core.errors import SpecError

__all__ = ["argv", "plan", "problems"]

DIRECT = "no shell needed"


def plan(line: str) -> Invocation:
    """Return how a line is started; raise SpecError for an unclosed quote."""
    try:
        pieces, why = shell.read(line)
    except shell.UnclosedError as error:
        raise SpecError([unclosed(error, None)]) from None
    if why is not None:
        return Invocation((), f"bash: {why}", shell.script(pieces))
    return Invocation(tuple(map(shell.text, shell.words(pieces))), DIRECT)


def argv(invocation: Invocation, bash: bool) -> tuple[str, ...]:
    """Return the words to exec; ``bash`` is whether bash is installed."""
    if invocation.script is None:
        return invocation.argv
    if bash:
        return ("bash", "-o", "pipefail", "-c", invocation.script)
    return ("sh", "-c", invocation.script)
