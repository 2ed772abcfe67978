"""Pull and push images; the engine's messages meanwhile, and while it builds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import Struct, field

from runner.core import ImagePlan, Problem, Reason, quantities
from runner.core.errors import Cancel, EngineError, ImageError, RaiError
from runner.core.events import BuildOutput, Event, Progress, PullStarted
from runner.engines.docker.client import (
    FAILURES,
    Client,
    capture,
    connect,
    explained,
    failing,
    full,
    hang_up,
    pulse,
)
from runner.engines.docker.endpoint import EngineProbe
from runner.spec import image_names
from runner.system.background import BackgroundReader

POLL_S = 0.1
PIECE_BYTES = 1 << 16
LONGEST = 4 << 20
"""The most bytes of one message; it may quote a whole Dockerfile."""


class OutOfTimeError(Exception):
    """The engine took longer than the time limit."""


class ErrorDetail(Struct, frozen=True):
    """What ended a build, a pull or a push; ``code`` is a command's exit code."""

    code: int = 0
    message: str = ""


class LayerProgress(Struct, frozen=True):
    """How much of a layer has been transferred."""

    current: int | None = None
    total: int = 0


class Message(Struct, frozen=True, rename="camel"):
    """One message: a piece of a build's output, a layer's progress, or the failure."""

    stream: str = ""
    status: str = ""
    id: str = ""
    error: str = ""
    error_detail: ErrorDetail | None = None
    progress_detail: LayerProgress = field(default_factory=LayerProgress)


def messages(
    probe: EngineProbe,
    ask: Callable[[Client], object],
    cancel: Cancel,
    until: float = float("inf"),
    check: Callable[[], None] = lambda: None,
) -> Iterator[Message]:
    """Send a request by ``ask``, and yield the engine's messages; stop it on a cancel.

    ``check`` is called ten times a second or more, and may raise an exception to stop.

    The request has a connection of its own, since closing the connection is the only
    way to make the engine stop.

    Raises:
        OutOfTimeError: it is later than ``until``, on the monotonic clock.
        FAILURES: the request failed.
        EngineError: the engine no longer answers, or sends a message without end.
    """
    client, look = connect(probe, timeout_s=None), pulse(probe)
    responses = capture(client)

    def stop() -> None:
        for response in responses:
            hang_up(response)

    def source() -> Iterator[Message]:
        ask(client)
        sdk: Any = client
        sdk._raise_for_status(responses[-1])
        # Not by the SDK, which reads a message whole, however long it is.
        yield from decoded(responses[-1].iter_content(PIECE_BYTES))

    reader: BackgroundReader[Message] = BackgroundReader(source, stop)
    try:
        while not (reader.done or cancel.requested):
            message = reader.take(min(POLL_S, max(until - time.monotonic(), 0.0)))
            if message is not None:
                look.heard()
                yield message
            if time.monotonic() > until and not reader.done:
                raise OutOfTimeError
            check()
            with failing("go on"):
                look.check()
    finally:
        reader.close()
        client.close()
        look.close()


def decoded(pieces: Iterator[bytes]) -> Iterator[Message]:
    """Read messages, each on a line of its own.

    Raises:
        EngineError: one is longer than LONGEST, or is no message.
    """
    parts: list[bytes] = []
    size = 0
    for piece in pieces:
        *whole, rest = piece.split(b"\n")
        for line in whole:
            yield from _message(b"".join((*parts, line)))
            parts, size = [], 0
        parts.append(rest)
        size += len(rest)
        if size > LONGEST:
            raise EngineError(f"the Docker Engine sends over {LONGEST:,} bytes a line")
    yield from _message(b"".join(parts))


def _message(line: bytes) -> Iterator[Message]:
    text = line.decode(errors="replace").strip()
    try:
        if text:
            yield msgspec.json.decode(text, type=Message)
    except msgspec.DecodeError as error:
        raise EngineError(
            f"the Docker Engine sent what is no message: {error}"
        ) from None


BASE_HINT = (
    "check its name, and that its registry can be reached from here; "
    "without a registry, image/make-base makes debian:bookworm-slim"
)


def pull(probe: EngineProbe, plan: ImagePlan, cancel: Cancel) -> Iterator[Event]:
    """Pull an image; yield PullStarted and Progress. Raise ImageError if it fails."""
    reference, time_s = plan.reference, plan.limits.build_time_s
    name, tag = split(reference)

    def ask(client: Client) -> None:
        client.pull(name, tag, stream=True)

    def failed(why: str) -> RaiError:
        if problem := full(why):
            return EngineError(problem)
        text = f"the image {reference} cannot be pulled: {why}"
        problem = Problem(text, plan.place, image_names.advice(reference))
        return ImageError(problem, reason=Reason.IMAGE_NOT_FOUND)

    yield PullStarted(reference)
    layers = _Layers()
    what = f"the image {reference} was not pulled"
    for message in _transferred(probe, ask, cancel, time_s, what, failed):
        if layers.heard(message):
            yield Progress("pull", layers.done, layers.total)


def push(
    probe: EngineProbe, reference: str, target: str, cancel: Cancel, time_s: float
) -> Iterator[Event]:
    """Tag an image with its name in a registry, and push it there."""
    name, tag = split(target)
    with failing(f"name the image {target}"):
        connect(probe).tag(reference, name, tag)

    def ask(client: Client) -> None:
        client.push(name, tag, stream=True)

    def failed(why: str) -> RaiError:
        hint = "log in with `docker login`, or remove `push` from the build file"
        return ImageError(Problem(f"{target} cannot be pushed: {why}", hint=hint))

    yield BuildOutput(f"pushing {target}\n")
    what = f"{target} was not pushed"
    for _ in _transferred(probe, ask, cancel, time_s, what, failed):
        pass  # they tell of layers


def _transferred(
    probe: EngineProbe,
    ask: Callable[[Client], object],
    cancel: Cancel,
    time_s: float,
    what: str,
    failed: Callable[[str], RaiError],
) -> Iterator[Message]:
    """Yield the messages of a pull or a push that may take ``time_s``.

    ``what`` says that it did not come to its end; ``failed`` makes the error.
    """
    try:
        for message in messages(probe, ask, cancel, time.monotonic() + time_s):
            if message.error:
                raise failed(message.error)
            yield message
    except OutOfTimeError:
        text = f"{what} within {quantities.duration_text(time_s)}"
        hint = "ask for more time in resources.limits.build_time"
        raise ImageError(Problem(text, hint=hint), reason=Reason.TIME_LIMIT) from None
    except FAILURES as error:
        raise failed(explained(error)) from error


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
