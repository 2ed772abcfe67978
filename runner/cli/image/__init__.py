"""`rai image build|ls|prune`: each command is a module of its name."""

from __future__ import annotations

import typer

from runner.cli.image.build import build
from runner.cli.image.ls import ls
from runner.cli.image.prune import prune

image = typer.Typer(
    no_args_is_help=True,
    help="Build the image of a project; list and remove what was built.",
)
image.command()(build)
image.command()(ls)
image.command()(prune)
