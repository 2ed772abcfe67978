"""`rai image prune [-p DIR]`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from runner import engines
from runner.cli import common
from runner.cli.image import common as projects
from runner.core import BuildSpec, BuiltImage
from runner.core.errors import UsageError
from runner.core.quantities import size
from runner.engines.docker import DockerEngine
from runner.spec import image_names
from runner.spec.image_names import Kept, Prune
from runner.store.settings import Settings
from runner.terminal.layout import blocks
from runner.terminal.streams import say


def prune(
    path: Annotated[
        Path | None,
        typer.Option("--path", "-p", help="The project's folder.  [default: .]"),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--all",
            help="All images that rai built; with -p, all of the project.",
        ),
    ] = False,
    dry_run: common.DryRun = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")
    ] = False,
) -> None:
    """Remove a project's builds that later ones replaced.

    Images that a container uses, or that have a name of your own, are kept. --all also
    removes images with the name that a build file gave them.
    """
    if not (yes or dry_run or sys.stdin.isatty()):
        raise UsageError("cannot ask for confirmation here: add --yes or --dry-run")
    settings = common.settings()
    spec = None if everything and path is None else projects.spec(path or Path())
    store = engines.store(settings.engine, spec or projects.NO_SPEC)
    found = image_names.prune(
        _candidates(store, spec, settings, everything), everything=everything
    )
    _show(found, store.origin(Path()).machine)
    if dry_run or not found.removals:
        return
    question = f"Remove {_images(len(found.removals))}?"
    if not yes and not typer.confirm(question, err=True):
        say("Nothing was removed.")
        return
    _remove(store, found.removals)


def _candidates(
    store: DockerEngine, spec: BuildSpec | None, settings: Settings, everything: bool
) -> list[BuiltImage]:
    built = projects.built(store)
    if spec is None:
        return built
    project = projects.project(store, spec, settings)
    if everything:
        return [image for image in built if image.origin == project.origin]
    return project.outdated(built)


def _show(found: Prune, machine: str) -> None:
    """Show what would be removed, what that frees, and what is kept."""
    _show_kept(found.kept)
    if not found.removals:
        say("Nothing to remove.")
        return

    def names(image: BuiltImage) -> str:
        return ", ".join(image_names.other_names(image))

    blocks([projects.table(found.removals, machine, "names", names)])
    least = size(image_names.least_freed_bytes(found.removals))
    say(f"{_images(len(found.removals))} to remove; at least {least} to free")


def _remove(store: DockerEngine, images: Sequence[BuiltImage]) -> None:
    done = store.remove_images(images)
    _show_kept(done.kept)
    freed = "" if done.freed_bytes is None else f", {size(done.freed_bytes)} freed"
    removed = len(images) - len(done.kept)
    say(f"{_images(removed)} removed{freed}")


def _show_kept(kept: Sequence[Kept]) -> None:
    for one in kept:
        say(f"Keeping {image_names.reference(one.image)}: {one.why}")


def _images(number: int) -> str:
    return "1 image" if number == 1 else f"{number} images"
