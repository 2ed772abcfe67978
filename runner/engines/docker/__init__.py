"""The engine that runs a job in a container of a Docker Engine, here or elsewhere.

The SDK takes 0.2 s to import, so it is imported when an engine that answered is used,
and not to find out whether one does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
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
from runner.core.cancel import Cancel
from runner.core.errors import EngineError
from runner.core.events import Event
from runner.engines.docker.endpoint import API_TIMEOUT_S, Answer, reachable
from runner.gpu.watch import OnThisMachine

if TYPE_CHECKING:
    from runner.engines.docker.client import Client
    from runner.engines.docker.facts import Info
    from runner.engines.docker.gpu.options import Supply
    from runner.engines.imagestore import Removed

__all__ = ["DockerEngine", "reachable"]

OLDEST_API = (1, 41)


class DockerEngine(OnThisMachine):
    """The Docker Engine of DOCKER_HOST, of the current context, or the usual one."""

    name = "docker"
    timeout_s = API_TIMEOUT_S
    """How long an ordinary call to the engine may take."""

    def check(self, spec: BuildSpec) -> list[Problem]:
        """Say why no engine serves: none answers, or it is too old."""
        if self._answer.problem:
            return [self._answer.problem]
        version = self._answer.api_version
        if version and tuple(map(int, version.split("."))) < OLDEST_API:
            wanted = ".".join(map(str, OLDEST_API))
            text = (
                f"the Docker Engine at {self._answer.endpoint} speaks API {version}, "
                f"and {wanted} (Docker 20.10) is the oldest that rai uses"
            )
            return [Problem(text, hint="update the engine")]
        return []

    def facts(self) -> EngineFacts:
        """Say which engine it is and what it cannot enforce."""
        from runner.engines.docker.facts import facts

        return facts(self._info, self._api_version, self._answer.endpoint)

    def image_facts(self, project: Path, spec: BuildSpec) -> ImageFacts:
        """Look up the images that are there, and what a build would be made of."""
        from runner.engines.docker.images.prepare import image_facts

        return image_facts(self._client, project, spec)

    def prepare(
        self, plan: ImagePlan, project: Path, cancel: Cancel
    ) -> Iterator[Event]:
        """Pull, build or find the image."""
        from runner.engines.docker.images.prepare import prepare

        return prepare(self._client, self._answer, plan, project, cancel)

    def origin(self, project: Path) -> Origin:
        """Identify a project's folder as the labels of its images do."""
        from runner.engines.docker.images.built import origin

        return origin(project)

    def image_bytes(self, reference: str) -> int:
        """Return an image's size."""
        from runner.engines.docker.images.built import size_bytes

        return size_bytes(self._client, reference)

    def built_images(self) -> tuple[BuiltImage, ...]:
        """List the images that rai built."""
        from runner.engines.docker.images.built import built

        return built(self._client)

    def remove_images(self, images: Sequence[BuiltImage]) -> Removed:
        """Remove images by their names."""
        from runner.engines.docker.images.built import remove

        return remove(self._client, images)

    def gpus(self, image: str | None = None) -> GpuSituation:
        """Say which GPUs its containers can have; elsewhere, look from one."""
        from runner.engines.docker.gpu.query import situation

        return situation(self._client, self._supply, image)

    def hold(self, gpu: Gpu, run_id: str) -> AbstractContextManager[None]:
        """Lock a GPU of this machine as its other runs do; another's on the engine."""
        if self._supply.shared:
            from runner.gpu import nvidia

            return nvidia.hold(gpu, run_id)
        from runner.engines.docker.gpu.hold import hold

        return hold(self._client, gpu, run_id)

    def run(self, work: Workspace, cancel: Cancel) -> Iterator[Event]:
        """Run the steps in one container, each as a command of its own."""
        from runner.engines.docker.container.job import run

        return run(self._client, work, cancel, self._supply if work.gpu else None)

    @cached_property
    def _answer(self) -> Answer:
        return reachable(os.environ)

    @cached_property
    def _client(self) -> Client:
        from runner.engines.docker.client import connect

        if self._answer.problem:
            raise EngineError(self._answer.problem, reason=Reason.NO_ENGINE)
        return connect(self._answer, self.timeout_s)

    @cached_property
    def _info(self) -> Info:
        from runner.engines.docker.facts import ask

        return ask(self._client)

    @property
    def _api_version(self) -> str:
        return str(self._client.api_version)

    @property
    def _supply(self) -> Supply:
        from runner.engines.docker.facts import gpus
        from runner.engines.docker.gpu.options import Supply

        return Supply(
            gpus(self._info, self._api_version, self._answer.endpoint), self.machine
        )
