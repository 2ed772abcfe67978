"""The files and the states of a run's GPUs, for every engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path, PurePosixPath
from stat import S_IRGRP, S_IROTH

from msgspec.structs import replace

from runner.core import Gpu, GpuGrant, GpuState, GpuUse, GpuWay, HostGpus, Workspace
from runner.core.events import Event, GpuGiven
from runner.engines.base import in_background

QUERY_S = 5.0
"""How long a query of the GPUs' states may delay a run."""

ReadStates = Callable[[tuple[Gpu, ...]], tuple[GpuState, ...]]
"""Return the present states of GPUs; empty if they cannot be read."""


def visible_devices(work: Workspace) -> str:
    """Return the value of CUDA_VISIBLE_DEVICES: UUIDs, or "" without GPUs."""
    return work.gpu.uuids if work.gpu is not None else ""


def nodes(grant: GpuGrant, host: HostGpus) -> tuple[str, ...]:
    """Return the device files of the granted GPUs, and those that all GPUs need."""
    own = (node for gpu in grant.gpus for node in gpu.nodes)
    return tuple(dict.fromkeys((*host.nodes, *own)))


def files(host: HostGpus, folder: str) -> tuple[tuple[str, str], ...]:
    """Return pairs of the driver's libraries and programs and a path in a folder."""
    libraries = ((file, f"{folder}/lib64/{name}") for name, file in host.libraries)
    programs = (
        (file, f"{folder}/bin/{PurePosixPath(file).name}") for file in host.programs
    )
    return (*libraries, *programs)


def groups(paths: Sequence[str]) -> tuple[int, ...]:
    """Return the groups that may open some of these device files, where others may not.

    Some systems, such as Debian, restrict GPUs to a group such as video. The user of a
    strict run is in no group.
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
    """Return this machine's GPUs that this process was given.

    They do not change while it lives.
    """
    from runner.engines.gpu import (
        choice,
        nvidia,  # most runs do not need it
    )

    return choice.narrowed(nvidia.host(), os.environ)


class OnThisMachine:
    """A base class for engines that use this machine's GPUs."""

    @cached_property
    def machine(self) -> HostGpus:
        """This machine's GPUs that this process was given."""
        return this_machine()


class Watch:
    """The states of a run's GPUs before its commands, and after them.

    Without a grant it does nothing. ``at_once`` starts the first query now.
    """

    def __init__(
        self,
        grant: GpuGrant | None = None,
        read: ReadStates = lambda _: (),
        *,
        at_once: bool = False,
    ) -> None:
        self._grant, self._read = grant, read
        self._first = self._ask(grant) if grant and at_once else None

    def around(self, way: GpuWay | None, commands: Iterator[Event]) -> Iterator[Event]:
        """Yield a GpuGiven, the events of ``commands``, and a GpuGiven with states."""
        grant = self._grant
        if grant is None or way is None:
            yield from commands
            return
        first = self._first or self._ask(grant)
        use = GpuUse(way, grant.gpus, grant.driver, before=_answer(first))
        yield GpuGiven(use)
        yield from commands
        yield GpuGiven(replace(use, after=_answer(self._ask(grant))), over=True)

    def _ask(self, grant: GpuGrant) -> Future[tuple[GpuState, ...]]:
        return in_background(lambda: self._read(grant.gpus))


def _answer(asked: Future[tuple[GpuState, ...]]) -> tuple[GpuState, ...]:
    """Return the states; empty if they do not come in time: a GPU may be broken.

    No failure to look at it ends the run, which may need none of what it says.
    """
    with suppress(Exception):
        return asked.result(QUERY_S)
    return ()
