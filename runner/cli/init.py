"""`rai init [-p DIR]`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runner.cli import common
from runner.core.errors import UsageError
from runner.terminal.streams import say

STARTER = """\
rai:
  version: 0.2
{image}resources:
  limits:
    time: 10m
    memory: 4GiB
    network: false
commands:
  build:                        # each begins in /build, which is what comes back
    - ls -l $RAI_SOURCE_DIR     # your files; /src in a container or a sandbox
    - echo "it works" > answer.txt
"""

IMAGE = "  image: debian:bookworm-slim   # or leave it out and write a Dockerfile\n"
BUILT = "  # no `image:`, so that the image is built from the Dockerfile\n"


def starter(*, built: bool) -> str:
    """Return a first build file; its image may be built from a Dockerfile."""
    return STARTER.format(image=BUILT if built else IMAGE)


def init(
    directory: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help="Project folder.  [default: .]"),
    ] = None,
    path: common.ProjectPath = None,
    as_json: common.JsonFlag = False,
) -> None:
    """Create a small rai_build.yml to start from."""
    from runner.store.paths import BUILD_FILES

    folder = common.project(directory, path)
    for name in BUILD_FILES:
        if (folder / name).exists():
            raise UsageError(f"{folder / name} exists already")
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder")
    file = folder / BUILD_FILES[0]
    try:
        with file.open("x") as new:  # never through a link
            new.write(starter(built=(folder / "Dockerfile").is_file()))
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from error
    if as_json:
        common.print_json({"file": str(file)})
    else:
        say(f"Wrote {file}. Next: rai run -p {folder}")
