"""`rai rm RUN...`."""

from __future__ import annotations

from runner.cli import common


def rm(runs: common.RunArguments, as_json: common.JsonFlag = False) -> None:
    """Remove runs that have ended, with all that is kept of them.

    Tagged runs are removed too. If one of the runs cannot be removed, none is.
    """
    from runner.core import Problem
    from runner.core.errors import UsageError
    from runner.report import size
    from runner.store import prune, removal

    def not_over(run_id: str) -> Problem:
        hint = f"`rai cancel {run_id}` ends it"
        return Problem(f"run {run_id} has not ended", hint=hint)

    home, found, problems = common.look_up(runs)
    problems += [not_over(paths.id) for paths in found if not prune.over(paths)]
    if problems:
        raise UsageError(*problems)
    sizes = {paths.id: removal.size_bytes(paths.root) for paths in found}
    prune.remove(home, list(sizes))
    if as_json:
        common.print_json({"runs": list(sizes), "freed_bytes": sum(sizes.values())})
        return
    for name, taken in sizes.items():
        print(f"Removed run {name} ({size(taken)}).")
