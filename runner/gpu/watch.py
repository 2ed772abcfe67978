"""The GPUs of a run, whichever engine gives them: their files, and what is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path, PurePosixPath
from stat import S_IRGRP, S_IROTH
from threading import Thread

from msgspec.structs import replace

from runner.core import Gpu, GpuGrant, GpuState, GpuUse, GpuWay, HostGpus, Workspace
from runner.core.events import Event, GpuGiven

LOOK_S = 5.0
"""How long a look at the GPUs may hold up a run."""

ReadStates = Callable[[tuple[Gpu, ...]], tuple[GpuState, ...]]
"""Says how GPUs are now; an empty answer where that cannot be seen."""


def visible_devices(work: Workspace) -> str:
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


def groups(paths: Sequence[str]) -> tuple[int, ...]:
    """Give the groups whose members alone may open some of these device files.

    Some systems (Debian among them) keep GPUs to a group such as video; the user of a
    strict run is in none.
    """
    found: list[int] = []
    for path in paths:
        with suppress(OSError):
            facts = Path(path).stat()
            if not facts.st_mode & S_IROTH and facts.st_mode & S_IRGRP:
                found.append(facts.st_gid)
    return tuple(dict.fromkeys(found))


@cache
def this_machine() -> HostGpus:
    """Look for this machine's GPUs: once, for they stay while this process lives."""
    from runner.gpu import nvidia  # most runs need nothing of it

    return nvidia.host()


class OnThisMachine:
    """The part of an engine that knows this machine's GPUs."""

    @cached_property
    def machine(self) -> HostGpus:
        """This machine's GPUs."""
        return this_machine()


class Watch:
    """Looks at a run's GPUs before its commands, while it is set up, and after them.

    A run that was given none has nothing to look at, and nothing is told.
    """

    def __init__(
        self, grant: GpuGrant | None = None, look: ReadStates = lambda _: ()
    ) -> None:
        self._grant, self._look = grant, look
        self._first: _StateQuery | None = None

    def begin(self) -> None:
        """Take the first look, meanwhile."""
        if self._grant is not None:
            self._first = _StateQuery(self._look, self._grant.gpus)

    def around(self, way: GpuWay | None, commands: Iterator[Event]) -> Iterator[Event]:
        """Put what the run was given around its commands."""
        grant = self._grant
        if grant is None or way is None:
            yield from commands
            return
        first = self._first or _StateQuery(self._look, grant.gpus)
        use = GpuUse(way, grant.gpus, grant.driver, before=first.seen())
        yield GpuGiven(use)
        yield from commands
        last = _StateQuery(self._look, grant.gpus)
        yield GpuGiven(replace(use, after=last.seen()), over=True)


class _StateQuery:
    """One look at GPUs, in a thread of its own: a broken GPU may never answer."""

    def __init__(self, look: ReadStates, gpus: tuple[Gpu, ...]) -> None:
        self._look, self._gpus = look, gpus
        self._seen: tuple[GpuState, ...] = ()
        self._thread = Thread(target=self._take, daemon=True)
        self._thread.start()

    def seen(self) -> tuple[GpuState, ...]:
        """Wait for the answer, but not for long; empty where none came."""
        self._thread.join(LOOK_S)
        return self._seen

    def _take(self) -> None:
        self._seen = self._look(self._gpus)
