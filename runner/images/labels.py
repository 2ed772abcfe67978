"""The label of an image that rai built: set by the build, read from the engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from runner.core import BuiltImage, ImageParts, ImagePlan, Origin
from runner.images.names import KEY_REPOSITORY, normalise

BUILD = "rai.build"
VERSIONS = ("cuda", "mxnet", "numpy", "pycuda", "cudnn")
"""Versions that a Dockerfile may state, e.g. `LABEL rai.numpy=1.23.5`."""


class Label(Struct, frozen=True):
    """The label's JSON; ``names`` are those that the build file asked for."""

    key: str
    names: tuple[str, ...] = ()
    parts: ImageParts | None = None
    project: Origin | None = None


def written(plan: ImagePlan) -> dict[str, str]:
    """Return the labels to set on a plan's image."""
    pushed = plan.build.push if plan.build else None
    names = (*plan.tags, *([normalise(pushed.image_name)] if pushed else []))
    label = Label(plan.key, tuple(dict.fromkeys(names)), plan.parts, plan.origin)
    return {BUILD: msgspec.json.encode(label).decode()}


def read(
    image_id: str,
    tags: Iterable[str],
    labels: Mapping[str, str],
    size_bytes: int,
    created_at: float,
) -> BuiltImage | None:
    """Return the record of an image that rai built; None for any other image.

    Images that are built on such an image inherit its label, and pulled ones carry it:
    so an image that has names must have one that rai gave.
    """
    names = tuple(tags)
    ours = not names or any(map(is_key, names))
    try:
        label = msgspec.json.decode(labels.get(BUILD, ""), type=Label)
    except msgspec.DecodeError:
        return None
    if not ours:
        return None
    found = ((version, labels.get(f"rai.{version}", "")) for version in VERSIONS)
    return BuiltImage(
        id=image_id,
        tags=names,
        size_bytes=size_bytes,
        created_at=created_at,
        origin=label.project,
        parts=label.parts,
        names=label.names,
        versions=tuple((version, value) for version, value in found if value),
    )


def is_key(tag: str) -> bool:
    """Whether a name is a tag that rai made from a key."""
    return tag.startswith(f"{KEY_REPOSITORY}:")
