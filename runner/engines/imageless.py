"""What engines without images have in common: no image, and this machine's GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from runner.core import BuildSpec, Gpu, GpuGrant, GpuSituation, ImageFacts, ImagePlan
from runner.core.cancel import Cancel
from runner.core.events import Event
from runner.gpu.watch import OnThisMachine, Watch


class Imageless(OnThisMachine):
    """The part of the engine seam about images, where there are none, and GPUs.

    What looks at GPUs is imported only where a run asks for one.
    """

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
        from runner.gpu import access, nvidia

        return access.local(self.machine, nvidia.states(self.machine.gpus))

    def hold(self, gpu: Gpu, run_id: str) -> AbstractContextManager[None]:
        """Lock a GPU for all runs of this machine."""
        from runner.gpu import nvidia

        return nvidia.hold(gpu, run_id)

    def watch(self, grant: GpuGrant | None) -> Watch:
        """Begin to look at the GPUs that a run was given, if any."""
        if grant is None:
            return Watch()
        from runner.gpu import nvidia

        watch = Watch(grant, nvidia.states)
        watch.begin()
        return watch
