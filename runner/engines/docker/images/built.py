"""The images on the engine that rai built: listing and removing them."""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from runner import machine
from runner.core import BuiltImage, Origin
from runner.engines.docker.client import (
    FAILURES,
    APIError,
    Client,
    NotFound,
    explained,
    failing,
    image,
)
from runner.images import labels
from runner.images.inventory import Kept

CONFLICT = 409
FOLDER_DIGITS = 16


class Removed(Struct, frozen=True):
    """The images that were not removed, and the bytes freed (None: not known)."""

    kept: tuple[Kept, ...]
    freed_bytes: int | None


def origin(project: Path) -> Origin:
    """Identify a project's folder among others of the same name."""
    path = project.resolve()
    folder = hashlib.sha256(str(path).encode(errors="surrogateescape")).hexdigest()
    name = path.name.encode(errors="replace").decode()
    return Origin(name, machine.this_process().host, folder[:FOLDER_DIGITS])


def size_bytes(client: Client, reference: str) -> int:
    """Return an image's size, shared layers included."""
    with failing(f"look at the image {reference}"):
        return int(image(client, reference)["Size"])


def tags(each: dict[str, Any]) -> list[str]:
    """Return the names by tag of one image in the engine's list."""
    return [tag for tag in each["RepoTags"] or () if "<none>" not in tag]


def names(each: dict[str, Any]) -> list[str]:
    """Return the names, by tag and by digest, of one image in the engine's list."""
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
    """List what rai built, with what each shares and how many containers use it."""
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


def remove(client: Client, wanted: Sequence[BuiltImage]) -> Removed:
    """Remove images by their names, and return what that freed.

    The engine keeps what has come into use; an image that is already gone is no error.
    """
    before = _usage(client).get("LayersSize")
    kept = [k for each in wanted if (k := _removed(client, each)) is not None]
    after = _usage(client).get("LayersSize")
    if before is None or after is None:
        return Removed(tuple(kept), None)
    return Removed(tuple(kept), max(0, before - after))


def _removed(client: Client, built: BuiltImage) -> Kept | None:
    try:
        for name in built.tags or (built.id,):
            with contextlib.suppress(NotFound):
                client.remove_image(name)
    except APIError as error:
        if error.status_code != CONFLICT:
            with failing(f"remove the image {built.id}"):
                raise
        return Kept(built, explained(error))
    return None


def _usage(client: Client) -> dict[str, Any]:
    """Ask how large the layers are; return {} if the engine does not know.

    The SDK's own call has the engine measure its volumes as well, which takes long.
    """
    address = f"{client.base_url}/v{client.api_version}/system/df"
    with contextlib.suppress(ValueError, *FAILURES):
        found = client.get(address, params={"type": "image"}).json()
        return found if isinstance(found, dict) else {}
    return {}


def _known(size: int | None) -> int | None:
    return None if size is None or size < 0 else size
