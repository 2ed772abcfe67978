"""`rai init [--milestone NAME] [DIR]`."""

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
    milestone: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Write a project to fill in, for this milestone."
        ),
    ] = None,
    as_json: common.JsonFlag = False,
) -> None:
    """Create a small rai_build.yml to start from, or a milestone's project.

    \b
    rai init                        a rai_build.yml for the project of this folder
    rai init --milestone m3 mine    m2, m3, m4, final, or one of your site: a folder
                                    with a TODO to fill in
    """
    from runner.store.paths import BUILD_FILES

    folder = common.project(directory, path)
    if milestone is not None:
        _handout(folder, milestone, as_json=as_json)
        return
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


def _handout(folder: Path, name: str, *, as_json: bool) -> None:
    """Write a milestone's project, and say what is next."""
    from runner.spec import milestones
    from runner.submit import handouts

    found = milestones.find(name, common.settings().milestones)
    written = handouts.write(folder, found)
    if as_json:
        common.print_json({"files": [str(folder / name) for name in written]})
        return
    sources = (file for file in written if file.endswith((".cu", ".cpp")))
    todo = ", ".join(one for one in sources if b"TODO" in (folder / one).read_bytes())
    manual = "; README.md says what is what" if "README.md" in written else ""
    say(f"Wrote {len(written)} files into {folder}{manual}.")
    then = f", then fill in the TODO in {todo}" if todo else ""
    say(f"Next: rai run -p {folder}{then}.")
