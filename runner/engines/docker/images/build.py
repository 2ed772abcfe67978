"""Build an image, with BuildKit if the docker command line has it."""

from __future__ import annotations

import codecs
import os
import shutil
from collections.abc import Generator, Iterator

from runner import process
from runner.archive import Project
from runner.core import BuildImage, ImagePlan, Problem, Reason
from runner.core.cancel import Cancel
from runner.core.errors import EngineError, ImageError
from runner.core.events import BuildOutput, BuildStarted, Event, Output
from runner.engines.docker.client import FAILURES, Client, connect, explained, failing
from runner.engines.docker.endpoint import Endpoint, EngineProbe
from runner.engines.docker.images import context
from runner.engines.docker.images.buildlog import BuildLog, BuildxLog, ClassicLog
from runner.engines.docker.images.messages import Message, OutOfTimeError, messages
from runner.engines.docker.images.transfer import BASE_HINT
from runner.images import labels

CLASSIC = "the engine's classic builder (no docker buildx here)"
PROBE_TIME_S = 10.0
BUILD_OUTPUT_BYTES = 1 << 30

WITHOUT_GIT = {"BUILDX_GIT_INFO": "false", "BUILDX_GIT_LABELS": "false"}
"""Without these buildx runs git, which can run programs that the project names."""


def build(
    probe: EngineProbe, plan: ImagePlan, project: Project, cancel: Cancel
) -> Iterator[Event]:
    """Build and tag the image; raise ImageError with the step that failed."""
    asked = plan.build
    if asked is None:
        raise EngineError(f"a plan to build {plan.reference} has no build")
    buildx = _buildx(probe.endpoint)
    yield BuildStarted(plan.reference, plan.why, buildx or CLASSIC)
    try:
        if buildx:
            yield from _by_buildx(probe.endpoint, plan, asked, project, cancel)
        else:
            yield from _by_engine(probe, plan, asked, project, cancel)
    except OutOfTimeError:
        text = f"the image was not built within {plan.build_time_s:g} s"
        hint = "raise its time limit, or shorten the Dockerfile"
        raise ImageError(Problem(text, hint=hint)) from None


def buildx_command(plan: ImagePlan, asked: BuildImage) -> list[str]:
    """Return the command line that builds what its stdin holds, an archive."""
    words = ["docker", "buildx", "build", "--load", "--progress=plain"]
    words += [f"--file={asked.dockerfile}"]
    words += [f"--tag={tag}" for tag in _tags(plan)]
    words += [f"--label={name}={value}" for name, value in labels.written(plan).items()]
    words += [f"--build-arg={name}={value}" for name, value in asked.args]
    words += [f"--target={asked.target}"] if asked.target else []
    words += ["--no-cache"] if asked.no_cache else []
    return [*words, "-"]


def _tags(plan: ImagePlan) -> list[str]:
    return list(dict.fromkeys((plan.reference, *plan.tags)))


def _buildx(endpoint: Endpoint) -> str:
    """Return the version of docker buildx; "" without it."""
    if shutil.which("docker") is None:
        return ""
    try:
        done = process.run(
            ["docker", "buildx", "version"],
            timeout_s=PROBE_TIME_S,
            env={**os.environ, **endpoint.environment()},
        )
    except EngineError:
        return ""
    words = done.stdout.decode(errors="replace").split()
    return f"buildx {words[1]}" if done.exit_code == 0 and len(words) > 1 else ""


def _by_buildx(
    endpoint: Endpoint,
    plan: ImagePlan,
    asked: BuildImage,
    project: Project,
    cancel: Cancel,
) -> Generator[Event, None, None]:
    log = BuildxLog()
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    # An archive, as of the folder itself the builder would take what is not sent.
    names = context.names(project, asked.dockerfile)
    with context.archive(project.folder, names) as packed:
        running = process.stream(
            buildx_command(plan, asked),
            timeout_s=plan.build_time_s,
            cancel=cancel,
            room=process.room(BUILD_OUTPUT_BYTES),
            env={**os.environ, **endpoint.environment(), **WITHOUT_GIT},
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
    if ended.reason is Reason.TIME_LIMIT:
        raise OutOfTimeError
    if ended.exit_code and not cancel.requested:
        raise _failed(log)


def _by_engine(
    probe: EngineProbe,
    plan: ImagePlan,
    asked: BuildImage,
    project: Project,
    cancel: Cancel,
) -> Iterator[Event]:
    log = ClassicLog()
    names = context.names(project, asked.dockerfile)
    with context.archive(project.folder, names) as packed:

        def ask(client: Client) -> Iterator[Message]:
            return client.build(
                fileobj=packed,
                custom_context=True,
                dockerfile=asked.dockerfile,
                tag=plan.reference,
                target=asked.target,
                buildargs=dict(asked.args),
                nocache=asked.no_cache,
                labels=labels.written(plan),
                rm=True,
                forcerm=True,
                decode=True,
            )

        try:
            for message in messages(probe, ask, cancel, plan.build_time_s):
                if "error" in message:
                    log.end(message)
                    raise _failed(log)
                if text := log.shown(message.get("stream", "")):
                    log.add(text)
                    yield BuildOutput(text)
        except FAILURES as error:
            log.why = explained(error)
            raise _failed(log) from error
    if not cancel.requested:
        tag(connect(probe), plan)


def tag(client: Client, plan: ImagePlan) -> None:
    """Add the plan's other tags to a built image."""
    with failing(f"tag the image {plan.reference}"):
        for name in _tags(plan)[1:]:
            client.tag(plan.reference, name)


def _failed(log: BuildLog) -> ImageError:
    if log.base_missing:
        text = f"the base image of the build cannot be pulled: {log.failure}"
        return ImageError(Problem(text, hint=BASE_HINT), reason=Reason.IMAGE_NOT_FOUND)
    lines = "".join(f"\n  {line}" for line in log.tail)
    return ImageError(Problem(f"the image build failed: {log.failure}{lines}"))
