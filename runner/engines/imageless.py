"""What engines without images have in common: no image, and this machine's GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path

from runner import nvidia
from runner.cancel import Cancel
from runner.events import Event
from runner.gpus import ways
from runner.model import (
    BuildSpec,
    Gpu,
    GpuSituation,
    HostGpus,
    ImageFacts,
    ImagePlan,
)


class Imageless:
    """The part of the engine seam about images, where there are none, and GPUs."""

    def image_facts(self, project: Path, spec: BuildSpec) -> ImageFacts | None:
        """There are no images here."""
        return None

    def prepare(
        self, plan: ImagePlan, project: Path, cancel: Cancel
    ) -> Iterator[Event]:
        """There is nothing to prepare."""
        return iter(())

    def gpus(self, image: str | None = None) -> GpuSituation:
        """Give this machine's GPUs, which commands reach by their device files."""
        return ways.local(self.machine)

    def hold(self, gpu: Gpu, run_id: str) -> AbstractContextManager[None]:
        """Lock a GPU for all runs of this machine."""
        return nvidia.hold(gpu, run_id)

    @cached_property
    def machine(self) -> HostGpus:
        """This machine's GPUs, looked for once."""
        return nvidia.host()
