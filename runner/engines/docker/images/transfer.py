"""Pull and push images."""

from __future__ import annotations

from collections.abc import Iterator

from runner.core import Problem, Reason
from runner.core.cancel import Cancel
from runner.core.errors import ImageError
from runner.core.events import BuildOutput, Event, Progress, PullStarted
from runner.engines.docker.client import FAILURES, Client, connect, explained, failing
from runner.engines.docker.endpoint import EngineProbe
from runner.engines.docker.images.messages import Message, messages
from runner.images import substitutes

BASE_HINT = (
    "check its name, and that its registry can be reached from here; "
    "without a registry, image/make-base makes debian:bookworm-slim"
)


def pull(probe: EngineProbe, reference: str, cancel: Cancel) -> Iterator[Event]:
    """Pull an image; yield PullStarted and Progress. Raise ImageError if it fails."""
    name, tag = split(reference)

    def ask(client: Client) -> Iterator[Message]:
        found: Iterator[Message] = client.pull(name, tag, stream=True, decode=True)
        return found

    yield PullStarted(reference)
    layers: dict[str, tuple[int, int]] = {}
    try:
        for message in messages(probe, ask, cancel):
            if "error" in message:
                raise _not_found(reference, message["error"])
            if _downloads(message, layers):
                done = sum(done for done, _ in layers.values())
                total = sum(total for _, total in layers.values())
                yield Progress("pull", done, total)
    except FAILURES as error:
        raise _not_found(reference, explained(error)) from error


def push(
    probe: EngineProbe, reference: str, target: str, cancel: Cancel
) -> Iterator[Event]:
    """Tag an image with its name in a registry, and push it there."""
    name, tag = split(target)
    with failing(f"name the image {target}"):
        connect(probe).tag(reference, name, tag)

    def ask(client: Client) -> Iterator[Message]:
        found: Iterator[Message] = client.push(name, tag, stream=True, decode=True)
        return found

    yield BuildOutput(f"pushing {target}\n")
    try:
        for message in messages(probe, ask, cancel):
            if "error" in message:
                raise _not_pushed(target, message["error"])
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


def _downloads(message: Message, layers: dict[str, tuple[int, int]]) -> bool:
    progress = message.get("progressDetail") or {}
    if message.get("status") != "Downloading" or "current" not in progress:
        return False
    layers[message["id"]] = (progress["current"], progress.get("total", 0))
    return True


def _not_found(reference: str, why: str) -> ImageError:
    problem = Problem(
        f"the image {reference} cannot be pulled: {why}",
        hint=substitutes.advice(reference),
    )
    return ImageError(problem, reason=Reason.IMAGE_NOT_FOUND)


def _not_pushed(target: str, why: str) -> ImageError:
    hint = "log in with `docker login`, or remove `push` from the build file"
    return ImageError(Problem(f"{target} cannot be pushed: {why}", hint=hint))
