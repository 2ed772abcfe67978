"""What rai built on an engine: what of it would run now, and what could go."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct

from runner.core import (
    BuiltImage,
    ImageAction,
    ImagePlan,
    Origin,
)
from runner.images.labels import is_key


class Removal(Struct, frozen=True):
    """An image that could go, and the names to take from it; without names its id."""

    image: BuiltImage
    names: tuple[str, ...]


class Kept(Struct, frozen=True):
    """An image that stays although nothing would run it, and why."""

    image: BuiltImage
    why: str


class Prune(Struct, frozen=True):
    """What goes and what stays."""

    removals: tuple[Removal, ...]
    kept: tuple[Kept, ...]


def reference(image: BuiltImage) -> str:
    """Name an image: as rai does, or where it has no name by its id's beginning."""
    keys = [tag for tag in image.tags if is_key(tag)]
    return keys[0] if keys else image.id.removeprefix("sha256:")[:12]


def other_names(image: BuiltImage) -> tuple[str, ...]:
    """Give the names that are not for rai to find it again."""
    return tuple(tag for tag in image.tags if not is_key(tag))


def target(image: BuiltImage) -> str:
    """Name the stage that was built; "" for the last one, or where it is not known."""
    return image.parts.target if image.parts else ""


def current(image: BuiltImage, plans: Iterable[ImagePlan]) -> bool:
    """Whether a run of the project, as it is now, would start from this image."""
    reused = (plan for plan in plans if plan.action is ImageAction.REUSE)
    return any(plan.reference in image.tags for plan in reused)


def outdated(
    built: Sequence[BuiltImage], origin: Origin, plans: Sequence[ImagePlan]
) -> list[BuiltImage]:
    """Give the builds of a project that a later one has replaced.

    Of each target that runs now the current build stays, or the newest where none is;
    of a target that no run has any more nothing, once there is another build. Without
    plans any target may run.
    """
    own = [image for image in built if image.origin == origin]
    targets = {plan.build.target or "" for plan in plans if plan.build}
    targets = targets if plans else {target(image) for image in own}
    stays = [image for image in own if current(image, plans)]
    for name in targets - {target(image) for image in stays}:
        of_target = [image for image in own if target(image) == name]
        stays += [_newest(of_target)] if of_target else []
    if not stays and own:
        stays = [_newest(own)]
    return [image for image in own if image not in stays]


def prune(images: Iterable[BuiltImage], *, everything: bool) -> Prune:
    """Sort images into what goes and what stays.

    What a container uses stays, and what has a name that is not rai's. A name that the
    build file asked for keeps an image too, unless everything is to go.
    """
    removals, kept = [], []
    for image in images:
        given = image.names if everything else ()
        foreign = [name for name in other_names(image) if name not in given]
        if image.containers:
            count = "a container uses" if image.containers == 1 else "containers use"
            kept.append(Kept(image, f"{count} it"))
        elif foreign:
            kept.append(Kept(image, f"it is named {', '.join(foreign)}"))
        else:
            removals.append(Removal(image, image.tags))
    return Prune(tuple(removals), tuple(kept))


def least_freed_bytes(removals: Collection[Removal]) -> int:
    """Say how much space at least comes free: what each image shares with none."""
    return sum(r.image.size_bytes - (r.image.shared_bytes or 0) for r in removals)


def _newest(images: Sequence[BuiltImage]) -> BuiltImage:
    return max(images, key=lambda image: image.created_at)
