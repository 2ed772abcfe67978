"""The protocol of engines that have images, for `rai image`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from runner.core import BuildSpec, BuiltImage, Origin, Problem, Reason
from runner.core.errors import EngineError
from runner.engines import make
from runner.engines.base import Engine
from runner.images.inventory import Kept

KEEPING = "docker"
"""The engine that has images; "auto" means this one here."""


class Removed(Struct, frozen=True):
    """The images that were not removed, and the bytes freed (None: not known)."""

    kept: tuple[Kept, ...]
    freed_bytes: int | None


class ImageStore(Engine, Protocol):
    """An engine that has images."""

    def origin(self, project: Path) -> Origin:
        """Return what the labels of a project's images say of its folder."""
        ...

    def image_bytes(self, reference: str) -> int:
        """Return an image's size in bytes, shared layers included."""
        ...

    def built_images(self) -> tuple[BuiltImage, ...]:
        """Return the images that rai built."""
        ...

    def remove_images(self, images: Sequence[BuiltImage]) -> Removed:
        """Remove images by their names; return those kept and the bytes freed."""
        ...


def store(wanted: str, spec: BuildSpec) -> ImageStore:
    """Return the engine that has images; raise EngineError if it cannot be used."""
    if wanted not in ("auto", KEEPING):
        text = f"the {wanted} engine has no images"
        hint = f"only the {KEEPING} engine has them: set RAI_ENGINE={KEEPING}"
        raise EngineError(Problem(text, hint=hint), reason=Reason.NO_ENGINE)
    engine = make(KEEPING)
    if problems := engine.check(spec):
        raise EngineError(*problems, reason=Reason.NO_ENGINE)
    return engine  # type: ignore[return-value] # the one of the table that keeps images
