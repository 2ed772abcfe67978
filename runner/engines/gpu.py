"""The GPUs of a run, whichever engine gives them: their files, and what is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from threading import Thread

from runner.events import Event, GpuGiven
from runner.model import Gpu, GpuGrant, GpuState, GpuUse, GpuWay, HostGpus, Workspace

LOOK_S = 5.0
"""How long a look at the GPUs may hold up the first command."""

Look = Callable[[tuple[Gpu, ...]], tuple[GpuState, ...]]
"""Says how GPUs are now; an empty answer where that cannot be seen."""


def visible(work: Workspace) -> str:
    """Give the UUIDs that CUDA_VISIBLE_DEVICES names; empty where no GPU was given."""
    return work.gpu.uuids if work.gpu is not None else ""


def nodes(grant: GpuGrant, host: HostGpus) -> tuple[str, ...]:
    """Name the device files of the granted GPUs and those that all need: no others."""
    own = (node for gpu in grant.gpus for node in gpu.nodes)
    return tuple(dict.fromkeys((*host.nodes, *own)))


def files(host: HostGpus, folder: str) -> tuple[tuple[str, str], ...]:
    """Pair each library and program of the driver with its place below a folder."""
    libraries = ((file, f"{folder}/lib64/{name}") for name, file in host.libraries)
    programs = (
        (file, f"{folder}/bin/{PurePosixPath(file).name}") for file in host.programs
    )
    return (*libraries, *programs)


class Watch:
    """Looks at a run's GPUs before its commands, while it is set up, and after them.

    A run that was given none has nothing to look at, and nothing is told.
    """

    def __init__(self, grant: GpuGrant | None, look: Look) -> None:
        self._grant, self._look = grant, look
        self._before: tuple[GpuState, ...] = ()
        # A daemon, for a broken GPU may never answer.
        self._thread = Thread(target=self._first_look, daemon=True)

    def begin(self) -> None:
        """Take the first look, meanwhile."""
        if self._grant is not None:
            self._thread.start()

    def told(self, way: GpuWay | None, commands: Iterator[Event]) -> Iterator[Event]:
        """Put what the run was given around its commands."""
        if self._grant is None or way is None:
            yield from commands
            return
        if self._thread.ident is None:
            self.begin()
        self._thread.join(LOOK_S)
        use = GpuUse(way, self._grant.gpus, self._grant.driver, self._before)
        yield GpuGiven(use)
        yield from commands
        yield GpuGiven(replace(use, after=self._look(self._grant.gpus)))

    def _first_look(self) -> None:
        if self._grant is not None:
            self._before = self._look(self._grant.gpus)
