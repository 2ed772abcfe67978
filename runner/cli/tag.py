"""`rai tag RUN NAME`, `rai tag RUN --note TEXT`."""

from __future__ import annotations

from typing import Annotated

import typer

from runner.cli import common
from runner.core.errors import UsageError
from runner.store import run_files
from runner.store.home import find, set_tag
from runner.terminal.streams import say


def tag(
    run: common.RunArgument,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="The run's new tag.", show_default=False),
    ] = None,
    note: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Set the run's note; an empty one goes."),
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the run's tag.")
    ] = False,
    as_json: common.JsonFlag = False,
) -> None:
    """Name a run, and keep it from being removed.

    A run has at most one tag. If another run has the tag, it is moved. A tagged run is
    never removed to free space. A note is a line of at most 500 characters, which `rai
    show` and `rai runs` print; it does not keep the run.
    """
    if name is not None and remove:
        raise UsageError("give either the NAME of the tag or --remove")
    if name is None and note is None and not remove:
        raise UsageError("give the NAME of the tag, --note or --remove")
    note = None if note is None else note.strip()
    wrong = [None if name is None else run_files.tag_problem(name)]
    wrong.append(run_files.note_problem(note) if note else None)
    if found := [problem for problem in wrong if problem is not None]:
        raise UsageError(*found)
    home = common.home()
    paths = find(home, run)
    before, losers = run_files.read_tag(paths), list[str]()
    if name is not None or remove:
        losers = set_tag(home, paths, name or "")
    if note is not None:
        run_files.write_text(paths.note, note)
    now, noted = run_files.read_tag(paths), run_files.read_note(paths)
    if as_json:
        facts = {"run": paths.id, "tag": now or None, "before": before or None}
        common.print_json({**facts, "moved_from": losers, "note": noted or None})
        return
    for loser in losers:
        say(f"Run {loser} no longer has the tag {now}.")
    if before and before != now:
        say(f"Run {paths.id} no longer has the tag {before}.")
    if name is not None:
        say(f"Run {paths.id} has the tag {now}.")
    elif remove and not before:
        say(f"Run {paths.id} has no tag.")
    if note is not None:
        has = f"the note: {noted}" if noted else "no note."
        say(f"Run {paths.id} has {has}")
