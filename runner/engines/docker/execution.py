"""Run one command by the engine's exec API, on pipes or on a terminal."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from runner.core import Invocation, Stream
from runner.core.errors import EngineError
from runner.core.events import SMALL_BYTES, OutputPace, Piece
from runner.core.screen import Terminal, TerminalSize
from runner.engines.docker.attach import READ_BYTES, Connection, Demultiplexer, attach
from runner.engines.docker.client import CONFLICT, FAILURES, APIError, Client
from runner.engines.launch import FIND
from runner.system.interactive import Relay

LOOK_S = 0.5
FIRST_PAUSE_S = 0.005
BLOCK_BYTES = 1 << 16
RESIZE_TRIES = 20
AFTERMATH_S = 2.5
"""How long a stream may be silent after the command's end if others hold it open.

The engine itself closes it after 2 s.
"""
LONGEST_AFTERMATH_S = 10.0
CANNOT_EXECUTE, NOT_FOUND = 126, 127

SHELL = (
    'if command -v bash >/dev/null 2>&1; then exec bash -o pipefail -c "$0"; fi; '
    'exec /bin/sh -c "$0"'
)
"""Run a line by bash, or by sh if the image has no bash."""

_REFUSAL = b"OCI runtime exec failed: "
_MISSING = re.compile(
    rb'exec: "([^"]*)": (?:executable file not found|stat \S+: no such file)'
)


def words(invocation: Invocation) -> list[str]:
    """Return the program and its arguments."""
    if invocation.script is not None:
        return ["/bin/sh", "-c", SHELL, invocation.script]
    return list(invocation.argv)


class _Started:
    """A command in a container, by the id that the engine gives it.

    ``exit_code`` stays None if the container ended first. ``left_at`` is when the
    command's end was noticed; other processes may still hold its output open.
    """

    def __init__(self, client: Client, container: str) -> None:
        self._client, self._container, self._id = client, container, ""
        self.ended = False
        self.exit_code: int | None = None
        self.left_at: float | None = None

    def _still_runs(self, now: float) -> bool:
        """Ask the engine whether it still runs; note its end."""
        found = self._client.exec_inspect(self._id)
        if not found["Running"]:
            self.exit_code = found["ExitCode"]
            self.left_at = self.left_at or now
        return bool(found["Running"])

    def _container_runs(self) -> bool:
        state = self._client.inspect_container(self._container)["State"]
        return bool(state["Running"])


class Execution(_Started):
    """A started command, whose output is read as it comes."""

    def __init__(
        self,
        client: Client,
        container: str,
        invocation: Invocation,
        user: str,
        variables: Mapping[str, str],
    ) -> None:
        super().__init__(client, container)
        self._user = user
        self._frames, self._pace = Demultiplexer(), OutputPace()
        self._heard_any = False
        self._refusal = b""
        self._look_at = time.monotonic() + LOOK_S
        # Only time spent waiting here counts, not that of a slow caller.
        self._silent_s = self._waited_s = 0.0
        self._pause_s = FIRST_PAUSE_S
        self._id = self._create(words(invocation), dict(variables))
        self._reader = attach(client, self._id, self._has_left)

    def output(self, wait_s: float) -> Iterator[tuple[Stream, bytes]]:
        """Yield what the command has written, waiting up to ``wait_s``; see its end."""
        began = time.monotonic()
        block = self._reader.take(wait_s)
        now = time.monotonic()
        self._wait(now - began, heard=bool(block))
        if block:
            for stream, data in self._pace.gathered(self._gathered(block)):
                yield from self._pass_on(stream, data)
        if self._reader.done or now >= self._look_at:
            self._look_at = now + LOOK_S
            self._look(now)
        if self.ended and self._refusal:
            yield self._last_message()

    def _gathered(self, block: bytes) -> list[Piece]:
        """Return what a block brought, and what came with it."""
        size, pieces = len(block), self._frames.feed(block)
        if size < SMALL_BYTES:
            time.sleep(self._pace.gather_s)
        while size < READ_BYTES and (more := self._reader.take(0)):
            size += len(more)
            pieces += self._frames.feed(more)
        return pieces

    def close(self) -> None:
        """Close the stream; later output of processes that hold it open is lost."""
        self._reader.close()

    def _create(self, argv: list[str], variables: dict[str, str]) -> str:
        try:
            made = self._client.exec_create(
                self._container, argv, user=self._user, environment=variables
            )
        except APIError as error:
            if error.status_code != CONFLICT or self._container_runs():
                raise
            text = "the container ended before this command could start"
            raise EngineError(text) from error
        return str(made["Id"])

    def _wait(self, spent_s: float, heard: bool) -> None:
        """Count how long nothing came since the command's end."""
        if self.left_at is not None:
            self._waited_s += spent_s
            self._silent_s = 0.0 if heard else self._silent_s + spent_s

    def runs(self) -> bool:
        """Ask the engine whether the command still runs. Any thread may call it."""
        return not self._has_left()

    def _has_left(self) -> bool:
        """Whether the command ended; 2 s later the engine drops unread output."""
        return not self._client.exec_inspect(self._id)["Running"]

    def _look(self, now: float) -> None:
        """Ask the engine whether the command still runs.

        The stream does not tell: a program may close its output and run on, and
        another process may hold it open after the command's end.
        """
        if not self._still_runs(now):
            waited_enough = (
                self._silent_s >= AFTERMATH_S or self._waited_s >= LONGEST_AFTERMATH_S
            )
            self.ended = self._reader.done or waited_enough
        elif self._reader.done:
            self.ended = not self._container_runs()
            time.sleep(self._pause_s)
            self._pause_s = min(2 * self._pause_s, LOOK_S)

    def _pass_on(self, stream: Stream, data: bytes) -> Iterator[tuple[Stream, bytes]]:
        """Yield output, but hold back what may be an error message of the engine.

        The engine reports on the program's stdout that it cannot be started.
        """
        first, self._heard_any = not self._heard_any, True
        if first and data.startswith(_REFUSAL):
            self._refusal = data
            return
        if self._refusal:
            yield Stream.STDOUT, self._refusal
            self._refusal = b""
        yield stream, data

    def _last_message(self) -> tuple[Stream, bytes]:
        message, self._refusal = self._refusal, b""
        if self.exit_code not in (CANNOT_EXECUTE, NOT_FOUND):
            return Stream.STDOUT, message
        text = message.removeprefix(_REFUSAL).removesuffix(b": unknown\r\n")
        text = text[max(text.find(b'exec: "'), 0) :]
        if b"not found" in text or b"no such file" in text:
            self.exit_code = NOT_FOUND
        if missing := _MISSING.match(text):
            text = b"command not found: " + missing[1]
        elif shut := re.match(rb'exec: "([^"]*)": permission denied', text):
            text = b"cannot run " + shut[1] + b": it is not an executable file"
        return Stream.STDERR, text + b"\n"


class TerminalExecution(_Started):
    """A started command, whose terminal is relayed to a person's.

    Two threads carry its bytes between the engine's connection, which may be a socket,
    TLS or ssh, and a pair of sockets, so that neither side waits for the other.
    """

    def __init__(
        self,
        client: Client,
        container: str,
        invocation: Invocation,
        user: str,
        variables: Mapping[str, str],
        terminal: Terminal,
    ) -> None:
        super().__init__(client, container)
        self._look_at = 0.0
        self._size: TerminalSize | None = None
        self._tries = 0
        argv = ["/bin/sh", "-c", f'{FIND}exec "$@"', "rai", *words(invocation)]
        made = client.exec_create(
            container,
            argv,
            stdin=True,
            tty=True,
            user=user,
            environment=dict(variables),
        )
        self._id = made["Id"]
        self._connection = Connection(client, self._id, tty=True)
        self._ours, self._theirs = socket.socketpair()
        self._relay = Relay(terminal, self._ours.fileno(), self._resize)
        self._threads = [_thread(self._bring), _thread(self._send)]

    @property
    def left(self) -> bool:
        """Whether the person left."""
        return self._relay.left

    def relay(self, wait_s: float) -> None:
        """Carry what there is, waiting up to ``wait_s`` for it; see its end."""
        if not self._relay.ended:
            self._relay.step(wait_s)
            self._pass_size_on()
        now = time.monotonic()
        if self._relay.ended or now >= self._look_at:
            self._look_at = now + LOOK_S
            self._look(now)

    def close(self) -> None:
        """Close the connection."""
        self._connection.hang_up()
        for end in (self._ours, self._theirs):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(LOOK_S)
        self._ours.close()
        self._theirs.close()
        self._connection.release()

    def _look(self, now: float) -> None:
        """Ask the engine whether the command still runs."""
        runs = self._still_runs(now)
        if self._relay.ended:
            self.ended = not (runs and self._container_runs())

    def _resize(self, size: TerminalSize) -> None:
        self._size, self._tries = size, RESIZE_TRIES

    def _pass_size_on(self) -> None:
        """Set a new size; the engine refuses it until the command has started."""
        if self._size is None or not self._tries:
            return
        self._tries -= 1
        with suppress(*FAILURES):
            self._client.exec_resize(self._id, self._size.rows, self._size.columns)
            self._size = None

    def _bring(self) -> None:
        """Carry what the command prints."""
        with suppress(OSError):
            while block := self._connection.read(BLOCK_BYTES):
                self._theirs.sendall(block)
        with suppress(OSError):
            self._theirs.shutdown(socket.SHUT_WR)

    def _send(self) -> None:
        """Carry what is typed."""
        with suppress(OSError):
            while typed := self._theirs.recv(BLOCK_BYTES):
                self._connection.write(typed)


def _thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread
