"""One command as the engine's exec API runs it."""

from __future__ import annotations

import time
from collections.abc import Iterator

from runner.core import Invocation, Stream
from runner.core.errors import EngineError
from runner.engines.docker.attach import attach
from runner.engines.docker.client import APIError, Client
from runner.engines.docker.exec.frames import Demultiplexer

LOOK_S = 0.5
FIRST_PAUSE_S = 0.005
AFTERMATH_S = 2.5
"""How long a stream that others hold open may be silent after the command's end.

The engine closes it after 2 s by itself.
"""
LONGEST_AFTERMATH_S = 10.0
CONFLICT = 409
CANNOT_EXECUTE, NOT_FOUND = 126, 127

SHELL = (
    'if command -v bash >/dev/null 2>&1; then exec bash -o pipefail -c "$0"; fi; '
    'exec /bin/sh -c "$0"'
)
"""Runs a line by the best shell that the image has."""

_REFUSAL = b"OCI runtime exec failed: "


def words(invocation: Invocation) -> list[str]:
    """Give the program and its arguments."""
    if invocation.script is not None:
        return ["/bin/sh", "-c", SHELL, invocation.script]
    return list(invocation.argv)


class Execution:
    """A started command.

    ``exit_code`` stays None where the container ended with it; ``left_at`` is when it
    was seen to be gone, while its output may still be held open by others.
    """

    def __init__(self, client: Client, container: str, invocation: Invocation) -> None:
        self._client, self._container = client, container
        self.ended = False
        self.exit_code: int | None = None
        self._frames = Demultiplexer()
        self._heard_any = False
        self._refusal = b""
        self.left_at: float | None = None
        self._look_at = time.monotonic() + LOOK_S
        # Time spent waiting here: that a reader takes its time is no silence.
        self._silent_s = self._waited_s = 0.0
        self._pause_s = FIRST_PAUSE_S
        self._id = self._create(words(invocation))
        self._feed = attach(client, self._id, self._has_left)

    def output(self, wait_s: float) -> Iterator[tuple[Stream, bytes]]:
        """Give what the command has written, waiting a little; notice its end."""
        began = time.monotonic()
        block = self._feed.take(wait_s)
        now = time.monotonic()
        self._wait(now - began, heard=bool(block))
        if block:
            for stream, data in self._frames.feed(block):
                yield from self._told(stream, data)
        if self._feed.done or now >= self._look_at:
            self._look_at = now + LOOK_S
            self._look(now)
        if self.ended and self._refusal:
            yield self._last_word()

    def close(self) -> None:
        """Let go of the stream; whoever still holds its other end writes to nobody."""
        self._feed.close()

    def _create(self, argv: list[str]) -> str:
        try:
            made = self._client.exec_create(self._container, argv)
        except APIError as error:
            if error.status_code != CONFLICT or self._container_runs():
                raise
            text = "the container ended before this command could start"
            raise EngineError(text) from error
        identity: str = made["Id"]
        return identity

    def _wait(self, spent_s: float, heard: bool) -> None:
        """Count how long nothing came since the command is gone."""
        if self.left_at is not None:
            self._waited_s += spent_s
            self._silent_s = 0.0 if heard else self._silent_s + spent_s

    def _has_left(self) -> bool:
        """Ask whether the command is gone; 2 s later the engine drops the unread."""
        return not self._client.exec_inspect(self._id)["Running"]

    def _look(self, now: float) -> None:
        """Ask whether the command runs.

        A stream at its end does not say so, for a program may close its output; nor
        does an open one deny it, for a process left behind may hold it.
        """
        found = self._client.exec_inspect(self._id)
        if not found["Running"]:
            self.exit_code = found["ExitCode"]
            self.left_at = self.left_at or now
            over = (
                self._silent_s >= AFTERMATH_S or self._waited_s >= LONGEST_AFTERMATH_S
            )
            self.ended = self._feed.done or over
        elif self._feed.done:
            self.ended = not self._container_runs()
            time.sleep(self._pause_s)
            self._pause_s = min(2 * self._pause_s, LOOK_S)

    def _container_runs(self) -> bool:
        state = self._client.inspect_container(self._container)["State"]
        return bool(state["Running"])

    def _told(self, stream: Stream, data: bytes) -> Iterator[tuple[Stream, bytes]]:
        """Pass output on, but hold back what may be the engine's word, not a program's.

        That the program cannot be started the engine says on the program's stdout.
        """
        first, self._heard_any = not self._heard_any, True
        if first and data.startswith(_REFUSAL):
            self._refusal = data
            return
        if self._refusal:
            yield Stream.STDOUT, self._refusal
            self._refusal = b""
        yield stream, data

    def _last_word(self) -> tuple[Stream, bytes]:
        said, self._refusal = self._refusal, b""
        if self.exit_code not in (CANNOT_EXECUTE, NOT_FOUND):
            return Stream.STDOUT, said
        text = said.removeprefix(_REFUSAL).removesuffix(b": unknown\r\n")
        text = text[max(text.find(b'exec: "'), 0) :]
        if b"not found" in text or b"no such file" in text:
            self.exit_code = NOT_FOUND
        return Stream.STDERR, text + b"\n"
