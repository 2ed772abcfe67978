"""The engine protocol: what a job needs of the thing that runs its commands.

An engine yields events and never prints. A command that fails raises nothing; an engine
that fails raises EngineError, or ImageError for an image. It cleans up in its
generator's ``finally``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Protocol

from runner.archive import Project
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
from runner.core.terminal import Terminal
from runner.gpu.allocation import GpuSource


class Engine(GpuSource, Protocol):
    """A way of running commands, and the GPUs that it can give to a run."""

    name: str

    def check(self, spec: BuildSpec) -> list[Problem]:
        """Return why this engine cannot be used here; empty if it can."""
        ...

    def facts(self) -> EngineFacts:
        """Return the engine's version and what it cannot enforce here."""
        ...

    def image_facts(self, project: Project, spec: BuildSpec) -> ImageFacts | None:
        """Return the facts that decide about the image; None without images."""
        ...

    def prepare(
        self, plan: ImagePlan, project: Project, cancel: Cancel
    ) -> Iterator[Event]:
        """Pull or build the image; the last event is ImageReady."""
        ...

    def run(
        self, work: Workspace, cancel: Cancel, terminal: Terminal | None = None
    ) -> Generator[Event, None, None]:
        """Run the steps, then yield the build folder as BuildFolder events.

        With ``work.gpu`` yield a GpuGiven before the first command, and another, with
        the GPUs' state at that time, after the last.

        With ``terminal`` each step runs on a terminal of its own, used from that one.
        There is no output event then: a step prints to ``terminal``, and reads what is
        typed there. The new terminal is inside; no program there can reach ``terminal``
        itself. If the person leaves, the step is cancelled. The caller may close the
        generator after the last step, if it does not want the build folder.
        """
        ...
