"""`rai init [-p DIR]`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runner.cli.common import JsonFlag, print_json

STARTER = """\
rai:
  version: 0.2
  image: debian:bookworm-slim   # or leave it out and write a Dockerfile
resources:
  limits:
    time: 10m
    memory: 4GiB
    network: false
commands:
  build:                        # /src holds your files, /build is what comes back
    - ls -l /src
    - /bin/sh -c 'echo "it works" > /build/answer.txt'
"""


def init(
    path: Annotated[
        Path, typer.Option("--path", "-p", help="The project's folder.")
    ] = Path(),
    as_json: JsonFlag = False,
) -> None:
    """Create a small rai_build.yml to start from."""
    from runner.core.errors import UsageError
    from runner.session.project import NAMES

    for name in NAMES:
        if (path / name).exists():
            raise UsageError(f"{path / name} exists already")
    if not path.is_dir():
        raise UsageError(f"{path} is not a folder")
    file = path / NAMES[0]
    try:
        with file.open("x") as new:  # never through a link
            new.write(STARTER)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from error
    if as_json:
        print_json({"file": str(file)})
    else:
        print(f"Wrote {file}. Next: rai run -p {path}")
