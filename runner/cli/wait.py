"""`rai wait RUN...`."""

from __future__ import annotations

from typing import Annotated

import typer

from runner.cli import common


def wait(
    runs: common.RunArguments,
    timeout: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Wait at most so long, such as 10m."),
    ] = None,
    as_json: common.JsonFlag = False,
) -> None:
    """Wait for the end of runs; exit with the status of the first that failed.

    After --timeout the status is 124, and the runs go on.
    """
    import time

    from runner import places
    from runner.core import record
    from runner.core.errors import UsageError
    from runner.core.quantities import duration_s
    from runner.places import record_of

    most_s = None if timeout is None else duration_s(timeout)
    if timeout is not None and most_s is None:
        raise UsageError(f'--timeout is "{timeout}"; expected a time such as 10m')
    found = common.find_runs(runs)
    common.warn_elsewhere(*found)
    began_s = time.monotonic()
    for paths in found:
        left_s = None if most_s is None else most_s - (time.monotonic() - began_s)
        if not places.wait(paths, left_s):
            raise typer.Exit(124)
    ended = [record_of(paths) for paths in found]
    if as_json:
        common.print_json([record.plain(one) for one in ended])
    statuses = [one.verdict.reason.exit_code if one.verdict else 10 for one in ended]
    raise typer.Exit(next(filter(None, statuses), 0))
