"""The base of engines without images, which use this machine's programs and GPUs."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Protocol

from runner.archive import Project, source
from runner.core import (
    BuildSpec,
    Gpu,
    GpuGrant,
    GpuSituation,
    GpuWay,
    ImageFacts,
    ImagePlan,
    Step,
    Workspace,
)
from runner.core.cancel import Cancel
from runner.core.events import (
    BuildFolder,
    CommandFinished,
    Event,
    Starting,
    Usage,
    Warned,
)
from runner.core.terminal import Terminal
from runner.engines import leftovers
from runner.engines.folders import Folders
from runner.engines.sequence import in_order
from runner.gpu.watch import OnThisMachine, Watch

Owner = tuple[int, int]


class Workplace(Protocol):
    """Where the commands of one run are carried out; ``kind`` says what it is."""

    kind: str
    folders: Folders

    def execute(
        self, step: Step, time_s: float
    ) -> Generator[Event, None, CommandFinished]:
        """Run one command; return how it ended."""
        ...

    def interact(
        self, step: Step, time_s: float, terminal: Terminal
    ) -> CommandFinished:
        """Run one command on a terminal of its own, used from another."""
        ...

    def clear(self) -> None:
        """Kill what the commands left running."""
        ...

    @property
    def peak_bytes(self) -> int | None:
        """The most memory that the commands used."""
        ...


class Imageless(OnThisMachine):
    """An engine whose runs have a workplace on this machine, and no image.

    The code about GPUs is imported only for runs that ask for one.
    """

    def workplace(
        self, work: Workspace, cancel: Cancel
    ) -> AbstractContextManager[Workplace]:
        """Make the place for a run's commands; remove everything of it on exit."""
        raise NotImplementedError

    def run(
        self, work: Workspace, cancel: Cancel, terminal: Terminal | None = None
    ) -> Generator[Event, None, None]:
        """Run the steps, yield the build folder, and remove everything it made."""
        leftovers.remove()
        watch = self.watch(work.gpu)
        with self.workplace(work, cancel) as place:
            execute = partial(_interact, place, terminal) if terminal else place.execute
            yield Starting(place.kind)
            yield from watch.around(GpuWay.NODES, in_order(work, cancel, execute))
            yield Usage(place.peak_bytes)
            place.clear()
            yield from _build_folder(place.folders.build)

    def image_facts(self, project: Project, spec: BuildSpec) -> ImageFacts | None:
        """Return None: there are no images."""
        return None

    def prepare(
        self, plan: ImagePlan, project: Project, cancel: Cancel
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


def fill(folders: Folders, work: Workspace, owner: Owner | None = None) -> None:
    """Write the project and the first content of the build folder."""
    with work.open_source() as stream:
        source.unpack(stream, folders.source, owner)
    if work.open_build is not None:
        with work.open_build() as stream:
            source.unpack(stream, folders.build, root="build")
    if owner is not None:
        source.change_owner(folders.build, owner)


def _interact(
    place: Workplace, terminal: Terminal, step: Step, time_s: float
) -> Generator[Event, None, CommandFinished]:
    yield from ()
    return place.interact(step, time_s, terminal)


def _build_folder(folder: Path) -> Iterator[Event]:
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
