"""The base of engines without images, which use this machine's programs and GPUs."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from runner import engines
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
from runner.core.errors import Cancel
from runner.core.events import (
    BuildFolder,
    CommandFinished,
    Event,
    Starting,
    Usage,
    Warned,
)
from runner.core.screen import Terminal
from runner.engines.base import WithResult, in_order
from runner.engines.disk import FolderDiskWatch
from runner.engines.folders import Folders
from runner.engines.gpu.watch import OnThisMachine, Watch
from runner.pack import Project, source
from runner.system import process
from runner.system.child import Ended


class Workplace(ABC):
    """Where the commands of one run are run, and what they share.

    ``kind`` says what it is; ``processes`` returns those that may have its files open.
    """

    kind: str

    def __init__(
        self,
        work: Workspace,
        cancel: Cancel,
        folders: Folders,
        environment: dict[str, str],
        processes: Callable[[], Iterable[int]],
    ) -> None:
        self._work, self._cancel, self.folders = work, cancel, folders
        self._environment = environment
        self._bash = shutil.which("bash", path=environment["PATH"]) is not None
        self._room = process.room(work.limits.output_bytes)
        self._disk = FolderDiskWatch(
            folders.build,
            folders.scratch,
            limit_bytes=work.limits.disk_bytes,
            processes=processes,
        )
        self._largest_bytes: int | None = None

    @property
    def peak_bytes(self) -> int | None:
        """The most memory that the commands used."""
        return self._largest_bytes

    @abstractmethod
    def execute(
        self, step: Step, time_s: float
    ) -> Generator[Event, None, CommandFinished]:
        """Run one command; return how it ended."""

    @abstractmethod
    def interact(
        self, step: Step, time_s: float, terminal: Terminal
    ) -> CommandFinished:
        """Run one command on a terminal of its own, used from another."""

    def clear(self) -> None:  # noqa: B027 - nothing outlives a sandbox
        """Kill what the commands left running."""

    def _note_memory(self, ended: Ended) -> None:
        """Note what a command's largest process took."""
        self._largest_bytes = max(self._largest_bytes or 0, ended.max_rss_bytes)


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
        engines.reap()
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
        from runner.engines.gpu import access, nvidia

        return access.local(self.machine, nvidia.states(self.machine.gpus))

    def hold(self, gpu: Gpu, run_id: str) -> AbstractContextManager[None]:
        """Lock a GPU against all other runs of this machine."""
        from runner.engines.gpu import nvidia

        return nvidia.hold(gpu, run_id)

    def watch(self, grant: GpuGrant | None) -> Watch:
        """Start watching the GPUs of a run, if it has any."""
        if grant is None:
            return Watch()
        from runner.engines.gpu import nvidia

        return Watch(grant, nvidia.states, at_once=True)


Owner = tuple[int, int]
"""A user and a group by their numbers."""


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
    packed = WithResult(source.pack(folder, "build"))
    yield from map(BuildFolder, packed)
    if packed.result:
        yield Warned(
            "left out of the build folder: what is nested in over"
            f" {source.DEEPEST:,} folders, or has a path of over"
            f" {source.LONGEST_NAME:,} bytes"
        )
