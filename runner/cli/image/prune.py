"""`rai image prune [-p DIR]`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli import common
from runner.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.core import BuildSpec, BuiltImage
    from runner.engines.imagestore import ImageStore
    from runner.images.inventory import Kept, Prune


def prune(
    path: Annotated[
        Path | None,
        typer.Option("--path", "-p", help="The project's folder.  [default: .]"),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--all",
            help="All that rai built; with -p, all that it built of the project.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be removed, and stop.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")
    ] = False,
) -> None:
    """Remove a project's builds that later ones replaced.

    Images that a container uses and images with a name of your own are kept. --all also
    removes images by the name that a build file gave.
    """
    from runner.cli.image import project as projects
    from runner.engines import imagestore
    from runner.images import inventory

    if not (yes or dry_run or sys.stdin.isatty()):
        raise UsageError("cannot ask for confirmation here: add --yes or --dry-run")
    settings = common.settings()
    spec = None if everything and path is None else projects.spec(path or Path())
    store = imagestore.store(settings.engine, spec or projects.NO_SPEC)
    found = inventory.prune(_candidates(store, spec, everything), everything=everything)
    _tell(found, store.origin(Path()).machine)
    if dry_run or not found.removals:
        return
    question = f"Remove {_images(len(found.removals))}?"
    if not yes and not typer.confirm(question, err=True):
        print("Nothing was removed.")
        return
    _remove(store, found.removals)


def _candidates(
    store: ImageStore, spec: BuildSpec | None, everything: bool
) -> list[BuiltImage]:
    from runner.cli.image import project as projects

    built = projects.built(store)
    if spec is None:
        return built
    project = projects.project(store, spec)
    if everything:
        return [image for image in built if image.origin == project.origin]
    return project.outdated(built)


def _tell(found: Prune, machine: str) -> None:
    """Show what would be removed, what that frees, and what is kept."""
    from runner.cli.image import words
    from runner.images import inventory
    from runner.report import size
    from runner.terminal.tables import blocks

    _keep(found.kept)
    if not found.removals:
        print("nothing to remove")
        return

    def names(image: BuiltImage) -> str:
        return ", ".join(inventory.other_names(image))

    blocks([words.table(found.removals, machine, "with its names", names)])
    least = size(inventory.least_freed_bytes(found.removals))
    print(f"{_images(len(found.removals))} can go; that frees {least} or more")


def _remove(store: ImageStore, images: Sequence[BuiltImage]) -> None:
    from runner.report import size

    done = store.remove_images(images)
    _keep(done.kept)
    freed = (
        "" if done.freed_bytes is None else f"; {size(done.freed_bytes)} are free again"
    )
    gone = len(images) - len(done.kept)
    print(f"{_images(gone)} removed{freed}")


def _keep(kept: Sequence[Kept]) -> None:
    from runner.images import inventory

    for one in kept:
        print(f"{inventory.reference(one.image)} stays: {one.why}")


def _images(number: int) -> str:
    return "1 image" if number == 1 else f"{number} images"
