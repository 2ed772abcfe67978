"""The images on the engine that rai built: whose, how large, in use; and their end."""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from runner.core import BuiltImage, Origin
from runner.engines.docker import owner
from runner.engines.docker.client import (
    FAILURES,
    APIError,
    Client,
    NotFound,
    explained,
    failing,
    image,
)
from runner.engines.imagestore import Removed
from runner.images import labels
from runner.images.inventory import Kept, Removal

CONFLICT = 409
FOLDER_DIGITS = 16


def origin(project: Path) -> Origin:
    """Mark a project's folder, so that others' of the same name are told apart."""
    path = project.resolve()
    folder = hashlib.sha256(str(path).encode(errors="surrogateescape")).hexdigest()
    name = path.name.encode(errors="replace").decode()
    return Origin(name, owner.here().host, folder[:FOLDER_DIGITS])


def size_bytes(client: Client, reference: str) -> int:
    """Say how large an image is, with all that it shares."""
    with failing(f"look at the image {reference}"):
        return int(image(client, reference)["Size"])


def tags(each: dict[str, Any]) -> list[str]:
    """Give the names by tag of one image in the engine's list."""
    return [tag for tag in each["RepoTags"] or () if "<none>" not in tag]


def names(each: dict[str, Any]) -> list[str]:
    """Give the names, by tag and by digest, of one image in the engine's list."""
    digests = (name for name in each["RepoDigests"] or () if "<none>" not in name)
    return [*tags(each), *digests]


def recognised(found: Iterable[dict[str, Any]]) -> tuple[BuiltImage, ...]:
    """Pick those that rai built out of the engine's list of images."""
    read = (
        labels.read(
            each["Id"],
            tags(each) or names(each),
            each["Labels"] or {},
            each["Size"],
            each["Created"],
        )
        for each in found
    )
    return tuple(one for one in read if one is not None)


def built(client: Client) -> tuple[BuiltImage, ...]:
    """List what rai built, with what it shares and who uses it."""
    with failing("list its images"):
        found = recognised(client.images())
        used = Counter(c["ImageID"] for c in client.containers(all=True))
    usage = {each["Id"]: each for each in _usage(client).get("Images") or ()}
    return tuple(
        replace(
            one,
            containers=used[one.id],
            shared_bytes=_known(usage.get(one.id, {}).get("SharedSize")),
        )
        for one in found
    )


def remove(client: Client, removals: Sequence[Removal]) -> Removed:
    """Remove images by their names, and say what that freed.

    The engine keeps what is in use by now; what is gone already is no failure.
    """
    before = _usage(client).get("LayersSize")
    kept = [k for removal in removals if (k := _removed(client, removal)) is not None]
    after = _usage(client).get("LayersSize")
    if before is None or after is None:
        return Removed(tuple(kept), None)
    return Removed(tuple(kept), max(0, before - after))


def _removed(client: Client, removal: Removal) -> Kept | None:
    try:
        for name in removal.names or (removal.image.id,):
            with contextlib.suppress(NotFound):
                client.remove_image(name)
    except APIError as error:
        if error.status_code != CONFLICT:
            with failing(f"remove the image {removal.image.id}"):
                raise
        return Kept(removal.image, explained(error))
    return None


def _usage(client: Client) -> dict[str, Any]:
    """Ask how large the layers are; nothing where the engine does not tell.

    The SDK's own call has the engine measure its volumes as well, which takes long.
    """
    address = f"{client.base_url}/v{client.api_version}/system/df"
    with contextlib.suppress(ValueError, *FAILURES):
        found = client.get(address, params={"type": "image"}).json()
        return found if isinstance(found, dict) else {}
    return {}


def _known(size: int | None) -> int | None:
    return None if size is None or size < 0 else size
