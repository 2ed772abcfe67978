"""Run a job on a Docker Engine, from its source to its build folder."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial

from runner import machine
from runner.core import Workspace
from runner.core.cancel import Cancel
from runner.core.errors import EngineError
from runner.core.events import (
    STOPPED,
    CommandSkipped,
    Event,
    Starting,
    Usage,
    Warned,
)
from runner.core.terminal import Terminal
from runner.engines import leftovers
from runner.engines.docker.client import Client, went_away
from runner.engines.docker.container.stage import RunContainers
from runner.engines.docker.exec.steps import Steps
from runner.engines.docker.gpu.options import GpuSupport
from runner.engines.docker.owner import reap
from runner.engines.sequence import in_order
from runner.engines.slurmjob import NO_JOB, JobShare
from runner.gpu.watch import Watch

THREADS = 4


def run(
    client: Client,
    work: Workspace,
    cancel: Cancel,
    support: GpuSupport | None,
    terminal: Terminal | None = None,
    share: JobShare = NO_JOB,
    *,
    closes: bool = False,
) -> Generator[Event, None, None]:
    """Run the steps in a new container, and remove everything it made.

    ``support`` is None for a run without GPUs. With ``terminal`` each step gets a
    terminal of its own, used from that one. ``share`` is what a Slurm job leaves the
    container. ``closes`` says that this user can close private addresses to a container
    of this engine.
    """
    work, lowered = share.fitted(work)
    pool = ThreadPoolExecutor(THREADS, "docker")
    stage = RunContainers(client, work, cancel, support, share, closes=closes)
    watch = _watch(client, work, stage, support)
    try:
        reaping = pool.submit(_reap, client)
        yield Starting()
        if lowered:
            yield Warned(lowered)
        try:
            yield from stage.set_up(pool)
        except EngineError as error:
            stage.blame_architecture(error)
            raise
        if cancel.requested:
            yield from _nothing_ran(work)
            return
        if work.gpu is not None:
            # The container of a killed run may still compute on the GPU that it held.
            wait([reaping])
        try:
            with Steps(client, stage.container, work, cancel) as steps:
                execute = (
                    partial(steps.interact, terminal) if terminal else steps.execute
                )
                commands = in_order(work, cancel, execute)
                yield from watch.around(stage.way, commands)
                yield Usage(steps.counters.peak_memory_bytes)
        except EngineError as error:
            # The folder outlives the container.
            if not went_away(error):
                with suppress(EngineError):
                    yield from stage.build_folder(pool, idle=False)
            stage.blame_architecture(error)
            raise
        yield from stage.build_folder(pool, idle=steps.idle)
        reaping.result()
    finally:
        stage.clear(pool)
        pool.shutdown(wait=False, cancel_futures=True)
        client.close()  # its idle connections; a process may make many runs


def _reap(client: Client) -> None:
    leftovers.remove()
    reap(client, machine.this_process())


def _watch(
    client: Client, work: Workspace, stage: RunContainers, support: GpuSupport | None
) -> Watch:
    if support is None:
        return Watch()
    from runner.engines.docker.gpu import query  # most runs do not need it

    return query.watch(client, work.gpu, support, lambda: stage.container)


def _nothing_ran(work: Workspace) -> Iterator[Event]:
    for step in work.steps:
        why = step.skip or STOPPED
        yield CommandSkipped(step.index, step.command.text, why, step.command.name)
