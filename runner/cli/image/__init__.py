"""`rai image build|ls|prune`: one module for each command."""

from __future__ import annotations

import typer

from runner.cli.image.build import build
from runner.cli.image.ls import ls
from runner.cli.image.prune import prune

image = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Build a project's image; list and remove built images.",
)
image.command()(build)
image.command()(ls)
image.command()(prune)
