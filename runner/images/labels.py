"""The label of an image that rai built: written at its build, read from the engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from runner.core import (
    BuiltImage,
    ImageParts,
    ImagePlan,
    Origin,
)
from runner.images.names import KEY_REPOSITORY, normalise

BUILD = "rai.build"
VERSIONS = ("cuda", "mxnet", "numpy", "pycuda", "cudnn")
"""What a Dockerfile may state, as `rai.numpy` and so on: LABEL rai.numpy=1.23.5"""


class Label(Struct, frozen=True):
    """The label's JSON; ``names`` are those that the build file asked for."""

    key: str
    names: tuple[str, ...] = ()
    parts: ImageParts | None = None
    project: Origin | None = None


def written(plan: ImagePlan) -> dict[str, str]:
    """Return the label of a plan's image."""
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
    """Recognise an image that rai built; None for any other.

    An image built on such an image inherits its label, and one that is pulled has it
    too: so an image with names must have a name that rai gives.
    """
    known = tuple(tags)
    ours = not known or any(map(is_key, known))
    label = _label(labels.get(BUILD, ""))
    if label is None or not ours:
        return None
    found = ((version, labels.get(f"rai.{version}", "")) for version in VERSIONS)
    return BuiltImage(
        id=image_id,
        tags=known,
        size_bytes=size_bytes,
        created_at=created_at,
        origin=label.project,
        parts=label.parts,
        names=label.names,
        versions=tuple((version, value) for version, value in found if value),
    )


def is_key(tag: str) -> bool:
    """Whether a name is one by which rai finds an image again."""
    return tag.startswith(f"{KEY_REPOSITORY}:")


def _label(text: str) -> Label | None:
    try:
        return msgspec.json.decode(text, type=Label)
    except msgspec.DecodeError:
        return None
