"""The lines with which a program tells GitHub Actions or GitLab something.

GitHub reads ``::name key=value::text`` at the beginning of a line and, in the older
form, ``##[name key=value]text`` anywhere in it, on stdout and stderr alike
(actions/runner, ActionCommand.cs). After ``::stop-commands::TOKEN`` it reads neither,
up to the line ``::TOKEN::``, whatever stands between (ActionCommandManager.cs).
"""

from __future__ import annotations

import re

from runner.core.screen import printable
from runner.markup.annotations import Annotation

LONGEST_MESSAGE = 4000
"""Characters; GitHub cuts messages of more than 4096 (ExecutionContext.cs)."""

LONGEST_TITLE = 200


def command(name: str, value: str = "", **properties: str) -> str:
    """Return one of GitHub's commands as a line; properties that are "" are left out.

    ``%``, CR and LF are escaped in the text, and ``:`` and ``,`` in properties too, as
    GitHub's own toolkit does (actions/toolkit, command.ts).
    """
    given = [f"{key}={_property(v)}" for key, v in properties.items() if v]
    about = f" {','.join(given)}" if given else ""
    return f"::{name}{about}::{_data(value)}\n"


def annotation(found: Annotation, file: str = "") -> str:
    """Return an annotation as a command; ``file`` names its file as GitHub needs it."""
    line = str(found.place.line) if file and found.place else ""
    column = str(found.place.column) if file and found.place else ""
    return command(
        found.severity.value,
        _cut(found.text, LONGEST_MESSAGE),
        file=file,
        line=line,
        col=column,
        title=_cut(found.title, LONGEST_TITLE),
    )


def group(title: str) -> str:
    """Return the command that begins a group, which is shown folded."""
    return command("group", _cut(" ".join(title.split()), LONGEST_TITLE))


def section(title: str, name: str, at: int) -> str:
    """Return the marker that begins a section of GitLab's log.

    ``at`` is in seconds since 1970. The name is of letters, digits and ``_``.
    """
    shown = _cut(" ".join(printable(title).split()), LONGEST_TITLE)
    return f"\x1b[0Ksection_start:{at}:{_name(name)}\r\x1b[0K{shown}\n"


def section_end(name: str, at: int) -> str:
    """Return the marker that ends a section of GitLab's log."""
    return f"\x1b[0Ksection_end:{at}:{_name(name)}\r\x1b[0K\n"


def _name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


def _data(value: str) -> str:
    # The page of a log formats what it finds behind this sign, wherever it stands.
    escaped = printable(value).replace("##[", r"##\[").replace("%", "%25")
    return escaped.replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")


def _cut(value: str, most: int) -> str:
    return value if len(value) <= most else value[: most - 1] + "…"
