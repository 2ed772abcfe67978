"""Engines that keep images, for the commands about images."""

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
"""The engine that keeps images, which "auto" means here."""


class Removed(Struct, frozen=True):
    """The images that the engine kept, and the bytes freed (None: not known)."""

    kept: tuple[Kept, ...]
    freed_bytes: int | None


class ImageStore(Engine, Protocol):
    """An engine with images of its own."""

    def origin(self, project: Path) -> Origin:
        """Identify a project's folder as the labels of its images do."""
        ...

    def image_bytes(self, reference: str) -> int:
        """Return an image's size, shared layers included."""
        ...

    def built_images(self) -> tuple[BuiltImage, ...]:
        """List what rai built."""
        ...

    def remove_images(self, images: Sequence[BuiltImage]) -> Removed:
        """Remove images by their names."""
        ...


def store(wanted: str, spec: BuildSpec) -> ImageStore:
    """Return the engine that keeps images; raise EngineError if it cannot serve."""
    if wanted not in ("auto", KEEPING):
        text = f"the {wanted} engine has no images"
        hint = f"they are the {KEEPING} engine's: RAI_ENGINE={KEEPING}"
        raise EngineError(Problem(text, hint=hint), reason=Reason.NO_ENGINE)
    engine = make(KEEPING)
    if problems := engine.check(spec):
        raise EngineError(*problems, reason=Reason.NO_ENGINE)
    return engine  # type: ignore[return-value] # the one of the table that keeps images
