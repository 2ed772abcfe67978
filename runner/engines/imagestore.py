"""Engines that keep images: what the commands about images ask of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from runner.core import (
    BuildSpec,
    BuiltImage,
    Origin,
    Problem,
    Reason,
)
from runner.core.errors import EngineError
from runner.engines import make
from runner.engines.base import Engine
from runner.images.inventory import Kept, Removal

KEEPING = "docker"
"""The engine that keeps images; "auto" means it here."""


class Removed(Struct, frozen=True):
    """What stayed against the wish, and the bytes that came free (None: not told)."""

    kept: tuple[Kept, ...]
    freed_bytes: int | None


class ImageStore(Engine, Protocol):
    """An engine with images of its own."""

    def origin(self, project: Path) -> Origin:
        """Mark a project's folder as its images are marked."""
        ...

    def image_bytes(self, reference: str) -> int:
        """Say how large an image is, with all that it shares."""
        ...

    def built_images(self) -> tuple[BuiltImage, ...]:
        """List what rai built."""
        ...

    def remove_images(self, removals: Sequence[Removal]) -> Removed:
        """Remove images by their names."""
        ...


def store(wanted: str, spec: BuildSpec) -> ImageStore:
    """Give the engine that keeps images; EngineError (no_engine) where none serves."""
    if wanted not in ("auto", KEEPING):
        text = f"the {wanted} engine has no images"
        hint = f"they are the {KEEPING} engine's: RAI_ENGINE={KEEPING}"
        raise EngineError(Problem(text, hint=hint), reason=Reason.NO_ENGINE)
    engine = make(KEEPING)
    if problems := engine.check(spec):
        raise EngineError(*problems, reason=Reason.NO_ENGINE)
    return engine  # type: ignore[return-value] # the one of the table that keeps images
