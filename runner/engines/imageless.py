"""What engines without images have in common."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from runner.cancel import Cancel
from runner.events import Event
from runner.model import BuildSpec, ImageFacts, ImagePlan


class Imageless:
    """The part of the engine seam that is about images, where there are none."""

    def image_facts(self, project: Path, spec: BuildSpec) -> ImageFacts | None:
        """There are no images here."""
        return None

    def prepare(
        self, plan: ImagePlan, project: Path, cancel: Cancel
    ) -> Iterator[Event]:
        """There is nothing to prepare."""
        return iter(())
