"""`rai pull RUN [-o DIR]`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from runner import pack
from runner.cli import common, copies, running
from runner.core import Limits
from runner.core.errors import UsageError
from runner.execution import places
from runner.store import outputs
from runner.store.home import record_of
from runner.terminal.streams import say, write_line


def pull(
    run: common.RunOrLatest = "latest",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The new folder.  [default: build-RUN]"),
    ] = None,
    force: running.Force = False,
    as_json: common.JsonFlag = False,
) -> None:
    """Unpack a run's build folder into a new folder."""
    home = common.home()
    paths = places.find(home, run)
    copies.refresh([paths])
    if record_of(paths).state.final and places.active(paths):
        # Its build folder comes back before its record.
        places.wait(paths, timeout_s=places.REFRESHED_WITHIN_S)
    found = record_of(paths)
    if not paths.build.exists() and found.build_bytes is not None:
        places.of(paths).fetch_build(paths)
    if not paths.build.exists():
        raise UsageError(common.no_build_folder(found))
    into = outputs.place(output or Path(f"build-{paths.id}"))
    caps = pack.build_caps(found.limits or Limits())
    project = Path(found.project)
    done = outputs.bring_back(paths.build, into, caps, project, force=force)
    if as_json:
        common.print_json(done, folder=str(into))
        return
    if sys.stdout.isatty():
        text = f"Unpacked the build folder of run {paths.id} to {into}."
        say(text, to_stderr=True)
    else:
        write_line(str(into), sys.stdout)  # for a program, which needs it as it is
    for name in done.left_out:
        say(f"left out: {name}")
