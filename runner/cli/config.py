"""`rai config`."""

from __future__ import annotations

from typing import Annotated

import typer

from runner.cli import common, suggestions
from runner.terminal.streams import say


def config(
    key: Annotated[
        str | None,
        typer.Argument(
            metavar="[KEY]",
            help="Only this setting's value.",
            show_default=False,
            autocompletion=suggestions.settings,
        ),
    ] = None,
    show_origin: Annotated[
        bool,
        typer.Option(
            "--show-origin",
            help="Show where each value comes from, and what the site's policy says.",
        ),
    ] = False,
    engine: common.Engine = None,
    profile: common.Profile = None,
    as_json: common.JsonFlag = False,
) -> None:
    """List the settings, each with its value.

    The origin of a value is an option, a variable, a file and its line, or the default.
    """
    from runner.core import record
    from runner.core.errors import UsageError
    from runner.session import configuration
    from runner.session.options import Options

    options = Options(engine=engine, profile=profile)
    found = configuration.listed(options)
    if show_origin or as_json or (key or "").startswith("policy."):
        found += configuration.allowed()
    if key is not None:
        found = tuple(entry for entry in found if entry.key == key)
        if not found:
            text = f"there is no setting {key!r}; `rai config` lists all"
            raise UsageError(text)
    if as_json:
        common.print_json(record.plain(found))
        return
    for entry in found:
        line = f"{entry.key}={entry.value}" if key is None else entry.value
        say(f"{entry.origin}\t{line}" if show_origin else line)
