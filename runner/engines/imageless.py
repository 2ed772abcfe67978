"""The base of engines without images, which use this machine's GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from runner.archive import source
from runner.core import BuildSpec, Gpu, GpuGrant, GpuSituation, ImageFacts, ImagePlan
from runner.core.cancel import Cancel
from runner.core.events import BuildFolder, Event, Warned
from runner.gpu.watch import OnThisMachine, Watch


class Imageless(OnThisMachine):
    """The methods of an engine about images, of which it has none, and GPUs.

    The code about GPUs is imported only for runs that ask for one.
    """

    def image_facts(self, project: Path, spec: BuildSpec) -> ImageFacts | None:
        """Return None: there are no images."""
        return None

    def prepare(
        self, plan: ImagePlan, project: Path, cancel: Cancel
    ) -> Iterator[Event]:
        """Yield nothing: there is no image to prepare."""
        return iter(())

    def build_folder(self, folder: Path) -> Iterator[Event]:
        """Yield the build folder, and a warning if something stays behind."""
        packed = source.pack(folder, "build")
        while True:
            try:
                yield BuildFolder(next(packed))
            except StopIteration as stop:
                left_out = stop.value
                break
        if left_out:
            yield Warned(
                "left out of the build folder: what is nested in over"
                f" {source.DEEPEST:,} folders, or has a path of over"
                f" {source.LONGEST_NAME:,} bytes"
            )

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
