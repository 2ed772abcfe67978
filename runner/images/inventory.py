"""Images that rai built on an engine: which are current, which can be removed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from runner.core import BuiltImage, ImageAction, ImagePlan, Origin
from runner.images.labels import is_key


class Kept(Struct, frozen=True):
    """An image that is not removed, and why."""

    image: BuiltImage
    why: str


class Prune(Struct, frozen=True):
    """The images to remove, and those to keep."""

    removals: tuple[BuiltImage, ...]
    kept: tuple[Kept, ...]


def reference(image: BuiltImage) -> str:
    """Return the name that rai gave an image, else the start of its id."""
    keys = [tag for tag in image.tags if is_key(tag)]
    return keys[0] if keys else image.id.removeprefix("sha256:")[:12]


def other_names(image: BuiltImage) -> tuple[str, ...]:
    """Return the names that are not keys."""
    return tuple(tag for tag in image.tags if not is_key(tag))


def target(image: BuiltImage) -> str:
    """Return the stage that was built; "" for the last one, or if it is not known."""
    return image.parts.target if image.parts else ""


def current(image: BuiltImage, plans: Iterable[ImagePlan]) -> bool:
    """Whether a run of the project as it is now would start from this image."""
    reused = (plan for plan in plans if plan.action is ImageAction.REUSE)
    return any(plan.reference in image.tags for plan in reused)


def outdated(
    built: Sequence[BuiltImage], origin: Origin, plans: Sequence[ImagePlan]
) -> list[BuiltImage]:
    """Return the builds of a project that a later one has replaced.

    Of each target in the plans the current build is kept, or the newest if none is
    current. Builds of other targets are outdated if any build is kept. Without plans
    every target counts as planned.
    """
    own = [image for image in built if image.origin == origin]
    targets = {plan.build.target or "" for plan in plans if plan.build}
    targets = targets if plans else {target(image) for image in own}
    keep = [image for image in own if current(image, plans)]
    for name in targets - {target(image) for image in keep}:
        of_target = [image for image in own if target(image) == name]
        keep += [_newest(of_target)] if of_target else []
    if not keep and own:
        keep = [_newest(own)]
    return [image for image in own if image not in keep]


def replaced(
    built: Sequence[BuiltImage], origins: Iterable[Origin], before: float
) -> list[BuiltImage]:
    """Return the builds of projects, made before a time, that later ones replaced."""
    old = [image for origin in origins for image in outdated(built, origin, ())]
    return [image for image in old if image.created_at < before]


def prune(images: Iterable[BuiltImage], *, everything: bool) -> Prune:
    """Sort images into those to remove and those to keep.

    An image is kept if a container uses it or if it has a name of the user's own.
    A name from the build file also keeps an image, unless ``everything``.
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
            removals.append(image)
    return Prune(tuple(removals), tuple(kept))


def least_freed_bytes(removals: Iterable[BuiltImage]) -> int:
    """Return the bytes that no other image shares: at least these are freed."""
    return sum(image.size_bytes - (image.shared_bytes or 0) for image in removals)


def _newest(images: Sequence[BuiltImage]) -> BuiltImage:
    return max(images, key=lambda image: image.created_at)
