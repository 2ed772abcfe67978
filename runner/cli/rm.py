"""`rai rm RUN...`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli import common

if TYPE_CHECKING:
    from runner.core import Problem
    from runner.store.paths import Home, RunPaths


def rm(
    run: Annotated[list[str], typer.Argument(metavar="RUN...", help=common.RUN_HELP)],
    as_json: common.JsonFlag = False,
) -> None:
    """Remove runs that have ended, with all that is kept of them.

    Tagged runs are removed too. If one of the runs cannot be removed, none is.
    """
    from runner.core.errors import UsageError
    from runner.report import size
    from runner.store import prune, removal

    home = common.home()
    found, problems = _found(home, run)
    if problems:
        raise UsageError(*problems)
    sizes = {paths.id: removal.size_bytes(paths.root) for paths in found}
    prune.remove(home, list(sizes))
    if as_json:
        common.print_json({"runs": list(sizes), "freed_bytes": sum(sizes.values())})
        return
    for name, taken in sizes.items():
        print(f"Removed run {name} ({size(taken)}).")


def _found(home: Home, texts: list[str]) -> tuple[list[RunPaths], list[Problem]]:
    """Return the runs that are named, each once, and every reason not to remove one."""
    from runner.core.errors import UsageError
    from runner.store.home import find_in, open_index

    found: dict[str, RunPaths] = {}
    problems: list[Problem] = []
    with open_index(home) as listed:
        for text in texts:
            try:
                paths = find_in(listed, home, text)
            except UsageError as error:
                problems += error.problems
                continue
            if paths.id not in found and (problem := _running(paths)):
                problems.append(problem)
            found[paths.id] = paths
    return list(found.values()), problems


def _running(paths: RunPaths) -> Problem | None:
    from runner.core import Problem
    from runner.store import runs

    record = runs.read(paths)
    if (record is not None and not record.state.final) or runs.held(paths):
        text = f"run {paths.id} has not ended"
        return Problem(text, hint=f"`rai cancel {paths.id}` ends it")
    return None
