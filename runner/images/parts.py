"""The parts of an image that is built: their common key, and their text in a label."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from runner.core import BuildImage, ImageFacts, ImageParts
from runner.core.image import Entries
from runner.images import dockerfile
from runner.images.names import normalise

LONGEST_TEXT = 8192
"""Labels travel in an address: above this the files are left out."""


def of(build: BuildImage, facts: ImageFacts) -> ImageParts:
    """Take apart all that goes into an image.

    A base that the engine does not have counts as unknown: once the build has fetched
    it the key is another one.
    """
    text = facts.dockerfile or ""
    found = dockerfile.stages(text, dict(build.args), facts.platform)
    return ImageParts(
        dockerfile=build.dockerfile,
        text=_checksum(text),
        target=build.target or "",
        platform=facts.platform,
        args=tuple((name, _checksum(value)) for name, value in sorted(build.args)),
        bases=_looked_up(dockerfile.bases(found), facts.present),
        context=facts.context_sha256,
        files=facts.files,
    )


def with_bases(parts: ImageParts, present: Mapping[str, str]) -> ImageParts:
    """Give the parts with their bases as the engine has them now."""
    names = tuple(name for name, _ in parts.bases)
    return replace(parts, bases=_looked_up(names, present))


def key(parts: ImageParts) -> str:
    """Give a name to all that goes into the image."""
    whole = {**plain(parts), "files": None, "dockerfile": None}
    return _checksum(json.dumps(whole, sort_keys=True))


def plain(parts: ImageParts) -> dict[str, Any]:
    """Give the parts as JSON has them."""
    return {
        "dockerfile": parts.dockerfile,
        "text": parts.text,
        "target": parts.target,
        "platform": parts.platform,
        "args": dict(parts.args),
        "bases": dict(parts.bases),
        "context": parts.context,
        "files": dict(parts.files),
    }


def written(parts: ImageParts) -> str:
    """Write the parts as one line of JSON, without the files where it gets long."""
    whole = plain(parts)
    text = _compact(whole)
    return text if len(text) <= LONGEST_TEXT else _compact({**whole, "files": {}})


def read(text: str) -> ImageParts | None:
    """Read what was written; None for anything else."""
    try:
        found = json.loads(text)
        return ImageParts(
            dockerfile=str(found["dockerfile"]),
            text=str(found["text"]),
            target=str(found["target"]),
            platform=str(found["platform"]),
            args=_entries(found["args"]),
            bases=_entries(found["bases"]),
            context=str(found["context"]),
            files=_entries(found["files"]),
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def _looked_up(names: tuple[str, ...], present: Mapping[str, str]) -> Entries:
    listed = {normalise(tag): image_id for tag, image_id in present.items()}
    return tuple((name, listed.get(normalise(name), "")) for name in names)


def _entries(found: dict[object, object]) -> Entries:
    return tuple((str(name), str(value)) for name, value in found.items())


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
