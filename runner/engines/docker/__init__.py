"""Run a job in a container of a Docker Engine, on this machine or another.

The SDK takes 0.2 s to import, so it is imported only after an engine has answered.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from runner.core import (
    BuildSpec,
    BuiltImage,
    EngineFacts,
    Gpu,
    GpuSituation,
    ImageFacts,
    ImagePlan,
    Origin,
    Problem,
    Reason,
    Workspace,
)
from runner.core.errors import Cancel, EngineError
from runner.core.events import Event
from runner.core.screen import Terminal
from runner.engines.docker.endpoint import API_TIMEOUT_S, EngineProbe, probe
from runner.engines.gpu.watch import OnThisMachine

if TYPE_CHECKING:
    from runner.engines.docker.client import Client
    from runner.engines.docker.facts import Info
    from runner.engines.docker.gpu import GpuSupport
    from runner.engines.docker.images import Removed
    from runner.pack import Project

__all__ = ["DockerEngine", "probe"]

OLDEST_API = (1, 41)


class DockerEngine(OnThisMachine):
    """The Docker Engine of DOCKER_HOST, the current context, or the default socket."""

    name = "docker"
    timeout_s = API_TIMEOUT_S
    """The time-out of an ordinary call to the engine."""

    def check(self, spec: BuildSpec) -> list[Problem]:
        """Return a problem if no engine answers or it is too old."""
        if self._probe.problem:
            return [self._probe.problem]
        version = self._probe.api_version
        if version and tuple(map(int, version.split("."))) < OLDEST_API:
            wanted = ".".join(map(str, OLDEST_API))
            text = (
                f"the Docker Engine at {self._probe.endpoint} has API {version}; "
                f"rai needs {wanted} (Docker 20.10) or newer"
            )
            return [Problem(text, hint="update the engine")]
        return []

    def facts(self) -> EngineFacts:
        """Return the engine's version, its address and what it cannot enforce."""
        from runner.engines.docker.facts import facts

        return facts(self._info, self._api_version, self._probe.endpoint)

    def image_facts(self, project: Project, spec: BuildSpec) -> ImageFacts:
        """Return the engine's images and the inputs of a build."""
        from runner.engines.docker.images import image_facts

        return image_facts(self._client, project, spec)

    def prepare(
        self, plan: ImagePlan, project: Project, cancel: Cancel
    ) -> Iterator[Event]:
        """Pull, build or reuse the image; the last event is ImageReady."""
        from runner.engines.docker.images import prepare

        return prepare(self._client, self._probe, self._info, plan, project, cancel)

    def origin(self, project: Path) -> Origin:
        """Return what the labels of a project's images say of its folder."""
        from runner.engines.docker.images import origin

        return origin(project)

    def image_bytes(self, reference: str) -> int:
        """Return an image's size in bytes, shared layers included."""
        from runner.engines.docker.images import size_bytes

        return size_bytes(self._client, reference)

    def built_images(self) -> tuple[BuiltImage, ...]:
        """Return the images that rai built."""
        from runner.engines.docker.images import built

        return built(self._client)

    def remove_images(self, images: Sequence[BuiltImage]) -> Removed:
        """Remove images by their names; return those kept and the bytes freed."""
        from runner.engines.docker.images import remove

        return remove(self._client, images)

    def gpus(self, image: str | None = None) -> GpuSituation:
        """Return the GPUs that containers can use; another machine's by a container."""
        from runner.engines.docker.gpu import situation

        return situation(self._client, self._support, image)

    def hold(self, gpu: Gpu, run_id: str) -> AbstractContextManager[None]:
        """Lock a GPU: by a file on this machine, by a container on another."""
        if self._support.shared:
            from runner.engines.gpu import nvidia

            return nvidia.hold(gpu, run_id)
        from runner.engines.docker.gpu import hold

        return hold(self._client, gpu, run_id)

    def run(
        self, work: Workspace, cancel: Cancel, terminal: Terminal | None = None
    ) -> Generator[Event, None, None]:
        """Run the steps in one container, each by its own exec call.

        A step's own terminal is made by the engine, in the container.
        """
        from runner.engines.docker.facts import can_close
        from runner.engines.docker.owner import of_this_process
        from runner.engines.docker.stage import run

        support = self._support if work.gpu else None
        closes = work.limits.network and can_close(self._info, self._probe.endpoint)
        share = of_this_process(self._info, self._probe.endpoint)
        return run(self._client, work, cancel, support, terminal, share, closes=closes)

    @cached_property
    def _probe(self) -> EngineProbe:
        return probe(os.environ)

    @cached_property
    def _client(self) -> Client:
        from runner.engines.docker.client import connect

        if self._probe.problem:
            raise EngineError(self._probe.problem, reason=Reason.NO_ENGINE)
        return connect(self._probe, self.timeout_s)

    @cached_property
    def _info(self) -> Info:
        from runner.engines.docker.facts import ask

        return ask(self._client)

    @property
    def _api_version(self) -> str:
        return str(self._client.api_version)

    @property
    def _support(self) -> GpuSupport:
        from runner.engines.docker.facts import gpus
        from runner.engines.docker.gpu import GpuSupport

        return GpuSupport(
            gpus(self._info, self._api_version, self._probe.endpoint), self.machine
        )
