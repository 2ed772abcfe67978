"""The engine protocol: what a job asks of whatever runs its commands.

The words are the job's, not Docker's. An engine yields events, never prints, never
raises because a command failed, and raises EngineError (ImageError for an image) when
it failed itself. Clean-up stands in the generator's ``finally``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from runner.core import (
    BuildSpec,
    EngineFacts,
    ImageFacts,
    ImagePlan,
    Problem,
    Workspace,
)
from runner.core.cancel import Cancel
from runner.core.events import Event
from runner.gpu.source import GpuSource


class Engine(GpuSource, Protocol):
    """One way of running commands, and the GPUs that it can give to a run."""

    name: str

    def check(self, spec: BuildSpec) -> list[Problem]:
        """Return why this engine cannot serve here; empty when it can."""
        ...

    def facts(self) -> EngineFacts:
        """Return what this engine is and what it cannot enforce here."""
        ...

    def image_facts(self, project: Path, spec: BuildSpec) -> ImageFacts | None:
        """Return what decides about the image; None where there are no images."""
        ...

    def prepare(
        self, plan: ImagePlan, project: Path, cancel: Cancel
    ) -> Iterator[Event]:
        """Pull or build the image; the last event is ImageReady."""
        ...

    def run(self, work: Workspace, cancel: Cancel) -> Iterator[Event]:
        """Run the steps, then yield the build folder as BuildFolder events.

        With ``work.gpu`` a GpuGiven comes before the first command, and another, with
        the GPUs' state then, after the last.
        """
        ...
