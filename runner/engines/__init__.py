"""The engine seam: what a job asks of whatever runs its commands.

The words are the job's, not Docker's. An engine yields events, never prints, never
raises because a command failed, and raises EngineError (ImageError for an image) when
it failed itself. Clean-up stands in the generator's ``finally``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from runner.cancel import Cancel
from runner.events import Event
from runner.model import (
    BuildSpec,
    EngineFacts,
    ImageFacts,
    ImagePlan,
    Problem,
    Workspace,
)


class Engine(Protocol):
    """One way of running commands."""

    name: str

    def check(self, spec: BuildSpec) -> list[Problem]:
        """Say why this engine cannot serve here; empty when it can."""
        ...

    def facts(self) -> EngineFacts:
        """Say what this engine is and what it cannot enforce here."""
        ...

    def image_facts(self, project: Path, spec: BuildSpec) -> ImageFacts | None:
        """Look up what decides about the image; None where there are no images."""
        ...

    def prepare(
        self, plan: ImagePlan, project: Path, cancel: Cancel
    ) -> Iterator[Event]:
        """Pull or build the image; the last event is ImageReady."""
        ...

    def run(self, work: Workspace, cancel: Cancel) -> Iterator[Event]:
        """Run the steps, then give the build folder back as BuildFolder events."""
        ...
