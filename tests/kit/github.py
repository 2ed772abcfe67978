"""How GitHub's runner reads a log, as far as commands go.

This is written from what the runner does (actions/runner, ActionCommand.cs and
ActionCommandManager.cs): what lines it takes for commands, and when it takes none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

COMMANDS = frozenset(
    {
        *("error", "warning", "notice", "debug", "group", "endgroup", "add-mask"),
        *("add-path", "set-env", "set-output", "save-state", "add-matcher"),
        *("remove-matcher", "echo", "stop-commands"),
    }
)


def commands(log: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each command that the runner obeys."""
    token = ""
    for line in re.split(r"\r\n|\r|\n", log):
        found = _newer(line, COMMANDS | {token}) or _older(line, COMMANDS | {token})
        if found is None:
            continue
        name, text = found
        if token:
            token = "" if name == token else token
        elif name == "stop-commands":
            token = text.lower()
        else:
            yield name, text


def _newer(line: str, known: frozenset[str]) -> tuple[str, str] | None:
    match = re.match(r"\s*::(.*?)::(.*)", line)
    return _known(match.group(1), match.group(2), known) if match else None


def _older(line: str, known: frozenset[str]) -> tuple[str, str] | None:
    match = re.search(r"##\[(.*?)\](.*)", line)
    return _known(match.group(1), match.group(2), known) if match else None


def _known(about: str, text: str, known: frozenset[str]) -> tuple[str, str] | None:
    name = about.split(" ")[0].lower()
    for sign, code in (("\r", "%0D"), ("\n", "%0A"), ("%", "%25")):
        text = text.replace(code, sign)
    return (name, text) if name in known and name else None
