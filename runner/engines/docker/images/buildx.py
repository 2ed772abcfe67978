"""Build an image with BuildKit, by the docker command line."""

from __future__ import annotations

import codecs
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping

from msgspec import Struct

from runner import process
from runner.archive import Project
from runner.core import Reason
from runner.core.errors import EngineError
from runner.core.events import BuildOutput, Event, Output
from runner.engines.docker.endpoint import Endpoint
from runner.engines.docker.images import context
from runner.engines.docker.images.build_run import BuildRun, BuildxLog, failed
from runner.images import labels

PROBE_TIME_S = 10.0

WITHOUT_GIT = {"BUILDX_GIT_INFO": "false", "BUILDX_GIT_LABELS": "false"}
"""Without these buildx runs git, which can run programs that the project names."""


class Builder(Struct, frozen=True):
    """docker buildx: its name and version, and the limits that it does not enforce."""

    name: str
    unenforced: tuple[str, ...]


def found(endpoint: Endpoint, *, grouped: bool) -> Builder | None:
    """Return the command line's builder; None without it.

    Only one within the engine itself puts its steps into the build's control group.
    """
    version = _said(endpoint, "version").split()
    if len(version) < 2:
        return None
    missing = ["disk"]
    inside = re.search(r"^Driver:\s+docker$", _said(endpoint, "inspect"), re.MULTILINE)
    if not (grouped and inside):
        missing = ["memory", "pids", *missing]
    return Builder(f"buildx {version[1]}", tuple(missing))


def build(run: BuildRun, project: Project) -> Iterator[Event]:
    """Yield what the builder prints; raise ImageError with the step that failed."""
    log = BuildxLog()
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    # An archive, as of the folder itself the builder would take what is not sent.
    dockerfile = run.asked.dockerfile
    names = context.names(project, dockerfile)
    with context.archive(project.folder, names, dockerfile, run.dockerfile) as packed:
        running = process.stream(
            _command(run),
            timeout_s=max(run.until - time.monotonic(), 0.0),
            cancel=run.cancel,
            room=process.room(run.plan.limits.output_bytes),
            env=_environment(run.probe.endpoint),
            input=packed,
        )
        while True:
            try:
                event = next(running)
            except StopIteration as end:
                ended: process.Ended = end.value
                break
            if isinstance(event, Output):
                text = decoder.decode(event.data)
                log.add(text)
                yield BuildOutput(text)
    if run.cancel.requested:
        return
    met = ended.reason
    if ended.exit_code and met is None:
        met = run.kernel_limit(log)
    if met in (
        Reason.TIME_LIMIT,
        Reason.OUTPUT_LIMIT,
        Reason.MEMORY_LIMIT,
        Reason.PIDS_LIMIT,
    ):
        raise run.over(met, log)
    if ended.exit_code:
        raise failed(log)


def _said(endpoint: Endpoint, command: str) -> str:
    """Return what a subcommand of buildx prints; "" if it fails."""
    if shutil.which("docker") is None:
        return ""
    try:
        done = process.run(
            ["docker", "buildx", command],
            timeout_s=PROBE_TIME_S,
            env=_environment(endpoint),
        )
    except EngineError:
        return ""
    return done.stdout.decode(errors="replace") if done.exit_code == 0 else ""


def _environment(endpoint: Endpoint) -> Mapping[str, str]:
    return {**os.environ, **endpoint.environment(), **WITHOUT_GIT}


def _command(run: BuildRun) -> list[str]:
    """Return the command line that builds what its stdin holds, an archive."""
    plan, asked, limits = run.plan, run.asked, run.plan.limits
    words = ["docker", "buildx", "build", "--load", "--progress=plain"]
    words += [f"--file={asked.dockerfile}", f"--tag={plan.reference}"]
    words += [f"--label={name}={value}" for name, value in labels.written(plan).items()]
    words += [f"--build-arg={name}={value}" for name, value in asked.args]
    words += [f"--target={asked.target}"] if asked.target else []
    words += ["--no-cache"] if asked.no_cache else []
    words += [f"--ulimit=nofile={limits.open_files}", "--ulimit=core=0"]
    words += [f"--shm-size={limits.shm_bytes}"]
    words += [f"--cgroup-parent={run.group_path}"] if run.group else []
    return [*words, "-"]
