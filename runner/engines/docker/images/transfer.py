"""Pull and push images."""

from __future__ import annotations

import time
from collections.abc import Iterator

from runner.core import ImagePlan, Problem, Reason, quantities
from runner.core.cancel import Cancel
from runner.core.errors import EngineError, ImageError, RaiError
from runner.core.events import BuildOutput, Event, Progress, PullStarted
from runner.engines.docker.client import (
    FAILURES,
    Client,
    connect,
    explained,
    failing,
    full,
)
from runner.engines.docker.endpoint import EngineProbe
from runner.engines.docker.images.messages import (
    Message,
    OutOfTimeError,
    messages,
)
from runner.images import substitutes

BASE_HINT = (
    "check its name, and that its registry can be reached from here; "
    "without a registry, image/make-base makes debian:bookworm-slim"
)


def pull(probe: EngineProbe, plan: ImagePlan, cancel: Cancel) -> Iterator[Event]:
    """Pull an image; yield PullStarted and Progress. Raise ImageError if it fails."""
    reference, time_s = plan.reference, plan.limits.build_time_s
    name, tag = split(reference)
    until = time.monotonic() + time_s

    def ask(client: Client) -> None:
        client.pull(name, tag, stream=True)

    yield PullStarted(reference)
    layers = _Layers()
    try:
        for message in messages(probe, ask, cancel, until):
            if message.error:
                raise _not_found(plan, message.error)
            if layers.heard(message):
                yield Progress("pull", layers.done, layers.total)
    except OutOfTimeError:
        raise _out_of_time(f"the image {reference} was not pulled", time_s) from None
    except FAILURES as error:
        raise _not_found(plan, explained(error)) from error


def push(
    probe: EngineProbe, reference: str, target: str, cancel: Cancel, time_s: float
) -> Iterator[Event]:
    """Tag an image with its name in a registry, and push it there."""
    name, tag = split(target)
    until = time.monotonic() + time_s
    with failing(f"name the image {target}"):
        connect(probe).tag(reference, name, tag)

    def ask(client: Client) -> None:
        client.push(name, tag, stream=True)

    yield BuildOutput(f"pushing {target}\n")
    try:
        for message in messages(probe, ask, cancel, until):
            if message.error:
                raise _not_pushed(target, message.error)
    except OutOfTimeError:
        raise _out_of_time(f"{target} was not pushed", time_s) from None
    except FAILURES as error:
        raise _not_pushed(target, explained(error)) from error


def split(reference: str) -> tuple[str, str]:
    """Split a reference into name and tag or digest; the default tag is latest."""
    if "@" in reference:
        name, _, digest = reference.partition("@")
        return name, digest
    name, _, tag = reference.rpartition(":")
    if not name or "/" in tag:  # the colon is that of a registry's port
        return reference, "latest"
    return name, tag


class _Layers:
    """How much of all layers together was downloaded so far."""

    def __init__(self) -> None:
        self._parts: dict[str, tuple[int, int]] = {}
        self.done = self.total = 0

    def heard(self, message: Message) -> bool:
        """Take a message into account; return whether it is about a download."""
        progress = message.progress_detail
        if message.status != "Downloading" or progress.current is None:
            return False
        before = self._parts.get(message.id, (0, 0))
        now = (progress.current, progress.total)
        self._parts[message.id] = now
        self.done += now[0] - before[0]
        self.total += now[1] - before[1]
        return True


def _out_of_time(what: str, time_s: float) -> ImageError:
    text = f"{what} within {quantities.duration_text(time_s)}"
    hint = "ask for more time in resources.limits.build_time"
    return ImageError(Problem(text, hint=hint), reason=Reason.TIME_LIMIT)


def _not_found(plan: ImagePlan, why: str) -> RaiError:
    if problem := full(why):
        return EngineError(problem)
    problem = Problem(
        f"the image {plan.reference} cannot be pulled: {why}",
        plan.place,
        substitutes.advice(plan.reference),
    )
    return ImageError(problem, reason=Reason.IMAGE_NOT_FOUND)


def _not_pushed(target: str, why: str) -> ImageError:
    hint = "log in with `docker login`, or remove `push` from the build file"
    return ImageError(Problem(f"{target} cannot be pushed: {why}", hint=hint))
