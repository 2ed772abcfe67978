"""Images that rai built, and what went into them."""

from __future__ import annotations

from msgspec import Struct


class Origin(Struct, frozen=True):
    """The project folder that an image was built from, on any machine.

    ``name`` is the folder's; ``machine`` and ``folder`` are checksums of the machine
    and the path, which distinguish the projects of several people on one engine.
    """

    name: str
    machine: str
    folder: str


class ImageParts(Struct, frozen=True):
    """The inputs of a built image: its target, and a checksum of each other part.

    ``args`` includes the platform, ``files`` all files that the build sees, ``bases``
    the names and ids of the images that the Dockerfile starts from.
    """

    target: str
    dockerfile: str
    args: str
    files: str
    bases: str


class BuiltImage(Struct, frozen=True):
    """An image on the engine that rai built.

    ``tags`` are all its names now, ``names`` those that the build file asked for when
    it was built. ``versions`` are those that its Dockerfile states. ``containers`` is
    the number of containers that use it, running or not. What was not looked up is
    None.
    """

    id: str
    tags: tuple[str, ...]
    size_bytes: int
    created_at: float
    origin: Origin | None = None
    parts: ImageParts | None = None
    names: tuple[str, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    shared_bytes: int | None = None
    containers: int | None = None
