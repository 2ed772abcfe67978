"""`rai pull RUN [-o DIR]`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runner.cli import settings


def pull(
    run: settings.RunArgument,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The new folder; build-RUN if not given."),
    ] = None,
    as_json: settings.JsonFlag = False,
) -> None:
    """Unpack a run's build folder here."""
    from runner import pack, record
    from runner.errors import UsageError
    from runner.model import Limits

    paths = settings.find(settings.home(), run)
    if not paths.build.exists():
        raise UsageError(f"run {paths.id} brought no build folder back")
    into = (output or Path(f"build-{paths.id}")).absolute()
    limits = settings.record_of(paths).limits or Limits()
    done = pack.unpack(paths.build, into, pack.build_caps(limits), root="build")
    if as_json:
        settings.print_json({"folder": str(into), **record.plain(done)})
        return
    print(into)
    for name in done.left_out:
        print(f"left out: {name}")
