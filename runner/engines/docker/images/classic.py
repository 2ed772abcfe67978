"""Build an image with the engine's own builder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial

from runner.archive import Project
from runner.core import Reason
from runner.core.errors import ImageError
from runner.core.events import BuildOutput, BuildStarted, Event, Warned
from runner.engines.docker.client import FAILURES, Client, connect, explained
from runner.engines.docker.container.disk import measured_by_root
from runner.engines.docker.facts import (
    PRIVATE,
    Info,
    closes_builds,
    is_here,
    unenforced_in_builds,
)
from runner.engines.docker.images import context, failure
from runner.engines.docker.images.build_run import BuildRun
from runner.engines.docker.images.buildlog import ClassicLog
from runner.engines.docker.images.group import parent
from runner.engines.docker.images.holder import BuildNetwork, closed_network
from runner.engines.docker.images.messages import OutOfTimeError, messages
from runner.engines.docker.images.options import (
    all_tags,
    classic_options,
    more_options,
)
from runner.engines.docker.images.written import BuildDiskWatch, BuildParts, engine_time
from runner.images import labels

NAME = "the engine's classic builder (no docker buildx here)"


def build(run: BuildRun, info: Info, project: Project) -> Iterator[Event]:
    """Yield what the builder prints; raise ImageError with the step that failed."""
    log = ClassicLog()
    client = connect(run.probe)
    limits = run.plan.limits
    with closing(client), _network(run, info, client) as network:
        yield from _started(run, info, network)
        parts = BuildParts(client, engine_time(client))
        watch = BuildDiskWatch(
            parts,
            client,
            limits.build_disk_bytes,
            lambda: run.group.processes_within if run.group else [],
            here=measured_by_root() and is_here(info, run.probe.endpoint),
        )
        remove = partial(parts.remove, run.plan.reference, labels.written(run.plan))
        try:
            with watch:
                yield from _output(run, project, log, parts, watch, network.name)
        except OutOfTimeError:
            remove()
            raise failure.over(Reason.TIME_LIMIT, limits, log) from None
        except FAILURES as error:
            log.why = explained(error)
            raise failure.failed(log) from error
        except ImageError as error:
            # A step that failed by itself leaves those before it for the next build.
            if error.reason not in (Reason.BUILD_FAILED, Reason.IMAGE_NOT_FOUND):
                remove()
            raise
        if run.cancel.requested:
            remove()
            return
        watch.look()
        met = Reason.DISK_LIMIT if watch.full else None
        if parts.killed_for_memory():  # though the step went on
            met = Reason.MEMORY_LIMIT
        if met:
            remove()
            raise failure.over(met, limits, log)
        for name in all_tags(run.plan)[1:]:
            client.tag(run.plan.reference, name)


def _network(
    run: BuildRun, info: Info, client: Client
) -> AbstractContextManager[BuildNetwork]:
    """Return the network of a build: one without private addresses, where possible."""
    if not closes_builds(info, run.probe.endpoint):
        return nullcontext(BuildNetwork())
    return closed_network(client, run.plan.private, run.plan.limits.build_time_s)


def _started(run: BuildRun, info: Info, network: BuildNetwork) -> Iterator[Event]:
    """Yield the start of the build, which names what is not enforced."""
    missing = unenforced_in_builds(info, run.probe.endpoint)
    if network.failure:
        missing = (*missing, PRIVATE)
    yield BuildStarted(run.plan.reference, run.plan.why, NAME, missing)
    if network.failure:
        yield Warned(f"private addresses are not closed: {network.failure}")


def _output(
    run: BuildRun,
    project: Project,
    log: ClassicLog,
    parts: BuildParts,
    watch: BuildDiskWatch,
    network: str | None,
) -> Iterator[Event]:
    plan, limits = run.plan, run.plan.limits
    left = limits.output_bytes
    dockerfile = run.asked.dockerfile
    names = context.names(project, dockerfile)
    with context.archive(project.folder, names, dockerfile, run.dockerfile) as packed:

        def ask(client: Client) -> None:
            # The SDK's own session adds them to every call of this client.
            client.params = more_options(plan, parent(run.group))
            client.build(
                fileobj=packed,
                custom_context=True,
                network_mode=network,
                **classic_options(plan, run.asked),
            )

        def check() -> None:
            if watch.full:
                raise failure.over(Reason.DISK_LIMIT, limits, log)

        for message in messages(run.probe, ask, run.cancel, run.until, check):
            if message.error:
                log.end(message)
                raise _ended(run, log, parts, closed=network is not None)
            parts.heard(message.stream)
            if text := log.shown(message.stream):
                log.add(text)
                left -= len(text)
                if left < 0 or parts.too_many:
                    raise failure.over(Reason.OUTPUT_LIMIT, limits, log)
                yield BuildOutput(text)


def _ended(
    run: BuildRun, log: ClassicLog, parts: BuildParts, *, closed: bool
) -> ImageError:
    """Return the error for a step that failed, or whose processes met a limit."""
    met = failure.kernel_limit(run.group, run.plan.limits, log)
    if log.exit_code and parts.killed_for_memory():
        met = Reason.MEMORY_LIMIT
    return (
        failure.over(met, run.plan.limits, log)
        if met
        else failure.failed(log, closed=closed)
    )
