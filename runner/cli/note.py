"""`rai note RUN TEXT`."""

from __future__ import annotations

from typing import Annotated

import typer

from runner.cli import common
from runner.terminal.streams import say


def note(
    run: common.RunArgument,
    text: Annotated[
        str | None,
        typer.Argument(metavar="[TEXT]", help="The run's note.", show_default=False),
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the run's note.")
    ] = False,
    as_json: common.JsonFlag = False,
) -> None:
    """Set a run's note.

    `rai show` and `rai history` show it. It is one line of at most 500 characters, and
    is kept in the run's folder. A note does not keep a run, as a tag does.
    """
    from runner.core.errors import UsageError
    from runner.store import notes
    from runner.store.home import find, set_note

    if (text is None) != remove:
        raise UsageError("give either the TEXT of the note or --remove")
    new = (text or "").strip()
    if text is not None and (problem := notes.problem(new)):
        raise UsageError(problem)
    home = common.home()
    paths = find(home, run)
    before = notes.read(paths)
    set_note(home, paths, new)
    if as_json:
        facts = {"run": paths.id, "note": new or None, "before": before or None}
        common.print_json(facts)
    elif new:
        say(f"Run {paths.id} has the note: {new}")
    elif before:
        say(f"Run {paths.id} no longer has the note: {before}")
    else:
        say(f"Run {paths.id} has no note.")
