"""Build an image with the engine's own builder."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

from runner.archive import Project
from runner.core import Reason
from runner.core.errors import ImageError
from runner.core.events import BuildOutput, BuildStarted, Event
from runner.engines.disk import Pace
from runner.engines.docker.client import FAILURES, Client, connect, explained
from runner.engines.docker.facts import Info, unenforced_in_builds
from runner.engines.docker.images import context
from runner.engines.docker.images.build_run import BuildRun, failed
from runner.engines.docker.images.buildlog import ClassicLog
from runner.engines.docker.images.messages import OutOfTimeError, messages
from runner.engines.docker.images.written import BuildParts, engine_time
from runner.images import labels

NAME = "the engine's classic builder (no docker buildx here)"
MEASURED_EVERY_S = 1.0


def build(run: BuildRun, info: Info, project: Project) -> Iterator[Event]:
    """Yield what the builder prints; raise ImageError with the step that failed."""
    log = ClassicLog()
    client = connect(run.probe)
    limits = run.plan.limits
    with closing(client):
        missing = unenforced_in_builds(info, run.probe.endpoint)
        yield BuildStarted(run.plan.reference, run.plan.why, NAME, missing)
        parts = BuildParts(client, engine_time(client))
        remove = partial(parts.remove, run.plan.reference, labels.written(run.plan))
        try:
            yield from _output(run, project, log, parts)
        except OutOfTimeError:
            remove()
            raise run.over(Reason.TIME_LIMIT, log) from None
        except FAILURES as error:
            log.why = explained(error)
            raise failed(log) from error
        except ImageError as error:
            # A step that failed by itself leaves those before it for the next build.
            if error.reason not in (Reason.BUILD_FAILED, Reason.IMAGE_NOT_FOUND):
                remove()
            raise
        if run.cancel.requested:
            remove()
            return
        full = parts.written_bytes() > limits.build_disk_bytes
        met = Reason.DISK_LIMIT if full else None
        if parts.killed_for_memory():  # though the step went on
            met = Reason.MEMORY_LIMIT
        if met:
            remove()
            raise run.over(met, log)


def _output(
    run: BuildRun, project: Project, log: ClassicLog, parts: BuildParts
) -> Iterator[Event]:
    limits = run.plan.limits
    pace = Pace(MEASURED_EVERY_S, MEASURED_EVERY_S)
    left = limits.output_bytes
    dockerfile = run.asked.dockerfile
    names = context.names(project, dockerfile)
    with context.archive(project.folder, names, dockerfile, run.dockerfile) as packed:

        def ask(client: Client) -> None:
            # The SDK's own session adds them to every call of this client.
            client.params = _more_options(run)
            client.build(fileobj=packed, custom_context=True, **_options(run))

        def check() -> None:
            if pace.due(None):
                began = time.monotonic()
                full = parts.written_bytes() > limits.build_disk_bytes
                pace.measured(began)
                if full:
                    raise run.over(Reason.DISK_LIMIT, log)

        for message in messages(run.probe, ask, run.cancel, run.until, check):
            if message.error:
                log.end(message)
                raise _ended(run, log, parts)
            parts.heard(message.stream)
            if text := log.shown(message.stream):
                log.add(text)
                left -= len(text)
                if left < 0 or parts.too_many:
                    raise run.over(Reason.OUTPUT_LIMIT, log)
                yield BuildOutput(text)


def _ended(run: BuildRun, log: ClassicLog, parts: BuildParts) -> ImageError:
    """Return the error for a step that failed, or whose processes met a limit."""
    met = run.kernel_limit(log)
    if log.exit_code and parts.killed_for_memory():
        met = Reason.MEMORY_LIMIT
    return run.over(met, log) if met else failed(log)


def _options(run: BuildRun) -> dict[str, Any]:
    """Return the arguments of the SDK's ``build`` but for the files.

    The memory is that of each RUN step; without swap, as for a run.
    """
    plan, asked, memory = run.plan, run.asked, run.plan.limits.memory_bytes
    return {
        "dockerfile": asked.dockerfile,
        "tag": plan.reference,
        "target": asked.target,
        "buildargs": dict(asked.args),
        "nocache": asked.no_cache,
        "labels": labels.written(plan),
        "container_limits": {"memory": memory, "memswap": memory},
        "shmsize": plan.limits.shm_bytes,
        "rm": True,
        "forcerm": True,
    }


def _more_options(run: BuildRun) -> dict[str, str]:
    """Return parameters of the API's call that the SDK's ``build`` does not take."""
    most = {"core": 0, "nofile": run.plan.limits.open_files}
    ulimits = [{"Name": n, "Soft": most[n], "Hard": most[n]} for n in most]
    named = {"cgroupparent": run.group_path} if run.group else {}
    return {"ulimits": json.dumps(ulimits), **named}
