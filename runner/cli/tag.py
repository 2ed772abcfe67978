"""`rai tag RUN NAME`."""

from __future__ import annotations

from typing import Annotated

import typer

from runner.cli import common
from runner.terminal.streams import say


def tag(
    run: common.RunArgument,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="The run's new tag.", show_default=False),
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the run's tag.")
    ] = False,
    as_json: common.JsonFlag = False,
) -> None:
    """Name a run, and keep it from being removed.

    A run has at most one tag. If another run has the tag, it is moved. A tagged run is
    never removed to free space, only by `rai rm`.
    """
    from runner.core.errors import UsageError
    from runner.store import tags
    from runner.store.home import find, set_tag

    if (name is None) != remove:
        raise UsageError("give either the NAME of the tag or --remove")
    new = name or ""
    if name is not None and (problem := tags.problem(name)):
        raise UsageError(problem)
    home = common.home()
    paths = find(home, run)
    before = tags.read(paths)
    losers = set_tag(home, paths, new)
    if as_json:
        facts = {"run": paths.id, "tag": name, "before": before or None}
        common.print_json({**facts, "moved_from": losers})
        return
    for loser in losers:
        say(f"Run {loser} no longer has the tag {new}.")
    if before and before != new:
        say(f"Run {paths.id} no longer has the tag {before}.")
    if new:
        say(f"Run {paths.id} has the tag {new}.")
    elif not before:
        say(f"Run {paths.id} has no tag.")
