"""The labels of an image that rai built: written at its build, read from the engine.

Each is always written, for an image inherits those of its base.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from runner.core import BuiltImage, ImagePlan, Origin
from runner.images import parts as parted
from runner.images.names import KEY_REPOSITORY, normalise

IMAGE, KEY, PARTS, NAMES = "rai.image", "rai.key", "rai.parts", "rai.names"
PROJECT = "rai.project"
VERSIONS = ("cuda", "mxnet", "numpy", "pycuda", "cudnn")
"""What a Dockerfile may state, as `rai.numpy` and so on: LABEL rai.numpy=1.23.5"""


def written(plan: ImagePlan) -> dict[str, str]:
    """Give what marks the image of a plan as ours, and says what it is made of."""
    pushed = plan.build.push if plan.build else None
    names = (*plan.tags, *([normalise(pushed.image_name)] if pushed else []))
    return {
        IMAGE: plan.reference,
        KEY: plan.key,
        NAMES: " ".join(dict.fromkeys(names)),
        PARTS: parted.written(plan.parts) if plan.parts else "",
        PROJECT: _project(plan.origin) if plan.origin else "",
    }


def read(
    image_id: str,
    tags: Iterable[str],
    labels: Mapping[str, str],
    size_bytes: int,
    created_at: float,
) -> BuiltImage | None:
    """Recognise an image that rai built; None for any other.

    Who builds on such an image inherits its labels, and who pulls one has them too: so
    one with names has to have a name that rai gives.
    """
    known = tuple(tags)
    ours = not known or any(map(is_key, known))
    if not labels.get(KEY) or not ours:
        return None
    found = ((version, labels.get(f"rai.{version}", "")) for version in VERSIONS)
    return BuiltImage(
        id=image_id,
        tags=known,
        size_bytes=size_bytes,
        created_at=created_at,
        origin=_origin(labels.get(PROJECT, "")),
        parts=parted.read(labels.get(PARTS, "")),
        names=tuple(labels.get(NAMES, "").split()),
        versions=tuple((version, value) for version, value in found if value),
    )


def is_key(tag: str) -> bool:
    """Whether a name is one by which rai finds an image again."""
    return tag.startswith(f"{KEY_REPOSITORY}:")


def _project(origin: Origin) -> str:
    return f"{origin.machine}/{origin.folder}/{origin.name}"


def _origin(text: str) -> Origin | None:
    match text.split("/", 2):
        case [machine, folder, name]:
            return Origin(name, machine, folder)
    return None
