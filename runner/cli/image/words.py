"""Tables of the images that rai built."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from runner.core import BuiltImage, ImageAction, ImagePlan
from runner.images import inventory
from runner.report import Table, ago, size

HEADS = ("image", "target", "size", "built", "project")


def table(
    images: Sequence[BuiltImage],
    machine: str,
    head: str,
    last: Callable[[BuiltImage], str],
) -> Table:
    """Return a table with a row for each image; omit the last column if it is empty.

    ``machine`` is this machine: images built from another one are marked.
    """
    now = time.time()
    rows = tuple(
        (
            inventory.reference(image),
            inventory.target(image),
            size(image.size_bytes),
            ago(now - image.created_at),
            project(image, machine),
            last(image),
        )
        for image in images
    )
    if any(row[-1] for row in rows):
        return Table("", (*HEADS, head), rows, frozenset({2}))
    return Table("", HEADS, tuple(row[:-1] for row in rows), frozenset({2}))


def contents(images: Sequence[BuiltImage]) -> Table | None:
    """Return a table of the shared sizes, versions and other names that are known."""
    rows = tuple(
        (inventory.reference(image), size(image.shared_bytes), ", ".join(_known(image)))
        for image in images
        if image.shared_bytes or _known(image)
    )
    heads = ("image", "shared", "versions and other names")
    return Table("", heads, rows, frozenset({1})) if rows else None


def project(image: BuiltImage, machine: str) -> str:
    """Return the name of an image's project, marked if on another machine."""
    if image.origin is None:
        return "unknown"
    elsewhere = image.origin.machine != machine
    return f"{image.origin.name} (elsewhere)" if elsewhere else image.origin.name


def target(plan: ImagePlan) -> str:
    """Return the stage that a run would use, "" for the last."""
    return plan.build.target or "" if plan.build else ""


def source(plan: ImagePlan) -> str:
    """Return how a run would get its image."""
    match plan.action:
        case ImageAction.REUSE:
            return f"{plan.reference}: {plan.why}"
        case ImageAction.PULL:
            return f"{plan.reference} would be pulled: {plan.why}"
        case ImageAction.BUILD:
            return f"would be built: {plan.why}"


def _known(image: BuiltImage) -> list[str]:
    versions = [f"{name} {version}" for name, version in image.versions]
    keys = [tag for tag in image.tags if tag != inventory.reference(image)]
    return [*versions, *keys]
