"""The inputs of a built image: their key, and the reason to build it again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

from runner.core import BuildImage, BuiltImage, ImageFacts, ImageParts, Origin
from runner.images.names import KEY_REPOSITORY, normalise

DIGITS = 20
"""The length of a checksum in the label and in the tag."""

NO_EARLIER = "no earlier build"
REASONS = {
    "dockerfile": "Dockerfile changed",
    "args": "build arguments changed",
    "files": "files changed",
    "bases": "base image changed",
}
"""The reason for a build when a part differs; the first part that differs gives it.

The bases are last: they also differ after an earlier build has pulled them.
"""


def of(build: BuildImage, facts: ImageFacts, bases: Iterable[str]) -> ImageParts:
    """Return the parts of an image that starts from the given bases.

    A base that the engine does not have is unknown: the key changes once the build has
    pulled it.
    """
    return ImageParts(
        target=build.target or "",
        dockerfile=of_dockerfile(facts.dockerfile),
        # The platform also sets build arguments.
        args=_checksum([facts.platform, *sorted(build.args)]),
        files=_checksum(facts.context_sha256),
        bases=checksum_of_bases(bases, facts.present),
    )


def checksum_of_bases(names: Iterable[str], present: Mapping[str, str]) -> str:
    """Return a checksum of the ids that the engine has for images of these names."""
    listed = {normalise(tag): image_id for tag, image_id in present.items()}
    return _checksum([(name, listed.get(normalise(name))) for name in names])


def of_dockerfile(text: str | None) -> str:
    """Return the checksum of a Dockerfile's text."""
    return _checksum(text)


def key(parts: ImageParts) -> str:
    """Return one checksum of all parts."""
    values = (parts.target, parts.dockerfile, parts.args, parts.files, parts.bases)
    return _sha256(values)


def reference(parts: ImageParts) -> str:
    """Return the tag of an image of these parts."""
    return f"{KEY_REPOSITORY}:{key(parts)[:DIGITS]}"


def reason(
    parts: ImageParts, origin: Origin | None, built: Iterable[BuiltImage]
) -> str:
    """Return why an image must be built, given the images that rai built before."""
    earlier = [
        image
        for image in built
        if image.origin == origin and image.parts and image.parts.target == parts.target
    ]
    last = max(earlier, key=lambda image: image.created_at, default=None)
    changed = (
        why
        for part, why in REASONS.items()
        if last and getattr(last.parts, part) != getattr(parts, part)
    )
    return next(changed, NO_EARLIER)


def _checksum(value: object) -> str:
    return _sha256(value)[:DIGITS]


def _sha256(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
