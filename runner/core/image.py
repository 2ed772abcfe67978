"""Images that rai built, and what went into them."""

from __future__ import annotations

from msgspec import Struct

Entries = tuple[tuple[str, str], ...]
"""Names, each with its value."""


class Origin(Struct, frozen=True):
    """The project folder that an image belongs to, on any machine.

    ``name`` is the folder's, ``machine`` and ``folder`` are checksums of its machine
    and its path: they tell apart what several people have built on one engine.
    """

    name: str
    machine: str
    folder: str


class ImageParts(Struct, frozen=True):
    """What goes into a built image, part by part.

    ``text`` is the checksum of the Dockerfile that ``dockerfile`` names, ``args`` holds
    checksums of the values. ``bases`` are the images built on, with their ids ("" for
    what the engine lacks). ``context`` covers every file that .dockerignore leaves;
    ``files`` are those files with short checksums, or nothing where they are many.
    """

    dockerfile: str
    text: str
    target: str
    platform: str
    args: Entries
    bases: Entries
    context: str
    files: Entries = ()


class BuiltImage(Struct, frozen=True):
    """An image on the engine that rai built.

    ``tags`` are all its names now, ``names`` those that the build file asked for when
    it was built. ``versions`` says what its Dockerfile put in. ``containers`` counts
    those that use it, running or not. What was not looked up is None.
    """

    id: str
    tags: tuple[str, ...]
    size_bytes: int
    created_at: float
    origin: Origin | None = None
    parts: ImageParts | None = None
    names: tuple[str, ...] = ()
    versions: Entries = ()
    shared_bytes: int | None = None
    containers: int | None = None
