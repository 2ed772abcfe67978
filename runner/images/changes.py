"""Why an image is built anew: which of its parts has changed, in words."""

from __future__ import annotations

from collections.abc import Iterable

from runner.core import BuiltImage, ImageParts, Origin
from runner.core.image import Entries

UNKNOWN = "no earlier build of this project is known here"
UNNAMED = "its earlier build has lost its name"
MOST_NAMED = 4
"""So many changes are named; of more the rest is counted."""


def why(parts: ImageParts, origin: Origin | None, built: Iterable[BuiltImage]) -> str:
    """Say what sets an image apart from the project's build that is nearest to it."""
    before = nearest(parts, origin, built)
    if before is None or before.parts is None:
        return UNKNOWN
    found = changes(before.parts, parts)
    if not found:
        return UNNAMED
    if len(found) == 1 and before.parts.target != parts.target:
        return f"the target {parts.target or '(the last)'} has no earlier build here"
    if len(found) == 1:
        return f"{found[0]} has changed"
    if len(found) > MOST_NAMED:
        found[MOST_NAMED - 1 :] = [f"{len(found) - MOST_NAMED + 1} more"]
    return f"{', '.join(found[:-1])} and {found[-1]} have changed"


def nearest(
    parts: ImageParts, origin: Origin | None, built: Iterable[BuiltImage]
) -> BuiltImage | None:
    """Give the project's last build, the best being one of the same target."""

    def nearness(image: BuiltImage) -> tuple[bool, bool, float]:
        its = image.parts or parts
        same_file = its.dockerfile == parts.dockerfile
        return same_file, its.target == parts.target, image.created_at

    if origin is None:
        return None
    own = [image for image in built if image.origin == origin and image.parts]
    return max(own, key=nearness, default=None)


def changes(before: ImageParts, now: ImageParts) -> list[str]:
    """Name each part that is not what it was."""
    found = []
    if before.dockerfile != now.dockerfile:
        found.append(f"the Dockerfile (now {now.dockerfile}, was {before.dockerfile})")
    elif before.text != now.text:
        found.append("the Dockerfile")
    found += [f"the argument {n}" for n in _differing(before.args, now.args)]
    for part in ("target", "platform"):
        was, is_ = getattr(before, part) or "none", getattr(now, part) or "none"
        if was != is_:
            found.append(f"the {part} (now {is_}, was {was})")
    return [*found, *_bases(before, now), *_context(before, now)]


def _bases(before: ImageParts, now: ImageParts) -> list[str]:
    """Name the bases that are others under the same name."""
    present, found = dict(now.bases), []
    for name, was in before.bases:
        is_ = present.get(name, was)
        if was != is_:
            how = "" if was and is_ else " (fetched since)" if is_ else " (gone here)"
            found.append(f"the base {name}{how}")
    return found


def _context(before: ImageParts, now: ImageParts) -> list[str]:
    """Name the files that differ, as far as both sides list them.

    The Dockerfile is among the context, and has been named.
    """
    if before.context == now.context:
        return []
    was, is_ = dict(before.files), dict(now.files)
    names = _differing(before.files, now.files) if was and is_ else []
    files = [
        f"the file {name}{'' if name in was and name in is_ else _came(name, is_)}"
        for name in names
        if name not in (before.dockerfile, now.dockerfile)
    ]
    edited = (before.dockerfile, before.text) != (now.dockerfile, now.text)
    return files or ([] if edited else ["a file of the context"])


def _came(name: str, now: dict[str, str]) -> str:
    return " (new)" if name in now else " (gone)"


def _differing(before: Entries, now: Entries) -> list[str]:
    was, is_ = dict(before), dict(now)
    return sorted(name for name in was | is_ if was.get(name) != is_.get(name))
