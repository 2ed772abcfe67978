"""The base of engines without images, which use this machine's GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from runner.core import BuildSpec, Gpu, GpuGrant, GpuSituation, ImageFacts, ImagePlan
from runner.core.cancel import Cancel
from runner.core.events import Event
from runner.gpu.watch import OnThisMachine, Watch


class Imageless(OnThisMachine):
    """The methods of an engine about images, of which it has none, and GPUs.

    The code about GPUs is imported only for runs that ask for one.
    """

    def found(self) -> str:
        """Return nothing: it finds out nothing that takes time."""
        return ""

    def adopt(self, found: str) -> None:
        """Do nothing."""

    def image_facts(
        self, project: Path, spec: BuildSpec, shown: Path | None = None
    ) -> ImageFacts | None:
        """Return None: there are no images."""
        return None

    def prepare(
        self, plan: ImagePlan, project: Path, cancel: Cancel
    ) -> Iterator[Event]:
        """Yield nothing: there is no image to prepare."""
        return iter(())

    def gpus(self, image: str | None = None) -> GpuSituation:
        """Return this machine's GPUs, which commands use by their device files."""
        from runner.gpu import access, nvidia

        return access.local(self.machine, nvidia.states(self.machine.gpus))

    def hold(self, gpu: Gpu, run_id: str) -> AbstractContextManager[None]:
        """Lock a GPU against all other runs of this machine."""
        from runner.gpu import nvidia

        return nvidia.hold(gpu, run_id)

    def watch(self, grant: GpuGrant | None) -> Watch:
        """Start watching the GPUs of a run, if it has any."""
        if grant is None:
            return Watch()
        from runner.gpu import nvidia

        watch = Watch(grant, nvidia.states)
        watch.begin()
        return watch
