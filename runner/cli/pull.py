"""`rai pull RUN [-o DIR]`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runner.cli import common


def pull(
    run: common.RunArgument,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The new folder.  [default: build-RUN]"),
    ] = None,
    as_json: common.JsonFlag = False,
) -> None:
    """Unpack a run's build folder into a new folder."""
    from runner import archive
    from runner.core import Limits, record
    from runner.core.errors import UsageError
    from runner.store.home import record_of

    paths = common.find_run(run)
    if not paths.build.exists():
        raise UsageError(f"run {paths.id} has no build folder")
    into = (output or Path(f"build-{paths.id}")).absolute()
    limits = record_of(paths).limits or Limits()
    done = archive.unpack(paths.build, into, archive.build_caps(limits), root="build")
    if as_json:
        common.print_json({"folder": str(into), **record.plain(done)})
        return
    print(into)
    for name in done.left_out:
        print(f"left out: {name}")
