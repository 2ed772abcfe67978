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
    from runner.images.inventory import Kept, Prune, Removal


def prune(
    path: Annotated[
        Path | None,
        typer.Option("--path", "-p", help="The project's folder.  [default: .]"),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--all",
            help="All that rai built; with -p all that it built of the project.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go, and stop.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove a project's builds that later ones replaced.

    An image that a container uses stays, and one with a name of its own; with --all a
    name that a build file gave goes too.
    """
    from runner.cli.image import project as projects
    from runner.engines import imagestore
    from runner.images import inventory

    if not (yes or dry_run or sys.stdin.isatty()):
        raise UsageError("nobody can be asked here: add --yes, or --dry-run to look")
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
    """Say what would go, what it would free, and what stays."""
    from runner.cli.image import words
    from runner.images import inventory
    from runner.report import size
    from runner.terminal.tables import blocks

    _keep(found.kept)
    if not found.removals:
        print("nothing to remove")
        return
    images = [removal.image for removal in found.removals]

    def names(image: BuiltImage) -> str:
        return ", ".join(inventory.other_names(image))

    blocks([words.table(images, machine, "with its names", names)])
    least = size(inventory.least_freed_bytes(found.removals))
    print(f"{_images(len(found.removals))} can go; that frees {least} or more")


def _remove(store: ImageStore, removals: Sequence[Removal]) -> None:
    from runner.report import size

    done = store.remove_images(removals)
    _keep(done.kept)
    freed = (
        "" if done.freed_bytes is None else f"; {size(done.freed_bytes)} are free again"
    )
    gone = len(removals) - len(done.kept)
    print(f"{_images(gone)} removed{freed}")


def _keep(kept: Sequence[Kept]) -> None:
    from runner.images import inventory

    for one in kept:
        print(f"{inventory.reference(one.image)} stays: {one.why}")


def _images(number: int) -> str:
    return "1 image" if number == 1 else f"{number} images"
