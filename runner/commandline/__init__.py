"""One command line to what is exec'd: directly, or through a shell.

Words are split as a POSIX shell splits them. A line that needs no shell is exec'd
directly. One with unquoted operators, expansions or globs, a leading assignment or a
builtin goes to a shell, and what is quoted in it stays literal there.
"""

from __future__ import annotations

from runner.commandline import lex, shell
from runner.commandline.problems import problems, unclosed
from runner.core import Invocation
from runner.core.errors import SpecError

__all__ = ["argv", "plan", "problems"]

DIRECT = "no shell needed"


def plan(line: str) -> Invocation:
    """Decide how a line is started; SpecError where ``problems`` finds an error."""
    try:
        pieces, why = shell.read(line)
    except lex.UnclosedError as error:
        raise SpecError([unclosed(error, None)]) from None
    if why is not None:
        return Invocation((), f"bash: {why}", shell.script(pieces))
    return Invocation(tuple(map(lex.text, lex.words(pieces))), DIRECT)


def argv(invocation: Invocation, bash: bool) -> tuple[str, ...]:
    """Give the words to exec; ``bash`` is whether there is one."""
    if invocation.script is None:
        return invocation.argv
    if bash:
        return ("bash", "-o", "pipefail", "-c", invocation.script)
    return ("sh", "-c", invocation.script)
