"""Run one command on a terminal in the container, by the engine's exec API."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from runner.core import Invocation
from runner.core.terminal import Terminal, TerminalSize
from runner.engines.docker.attach import Connection
from runner.engines.docker.client import FAILURES, Client
from runner.engines.docker.exec.execution import words
from runner.engines.launch import FIND
from runner.process.interactive import Relay

LOOK_S = 0.5
BLOCK_BYTES = 1 << 16
RESIZE_TRIES = 20


class TerminalExecution:
    """A started command, whose terminal is relayed to a person's.

    Two threads carry its bytes between the engine's connection, which may be a socket,
    TLS or ssh, and a pair of sockets, so that neither side waits for the other.
    ``exit_code`` stays None if the container ended first.
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
        self._client, self._container = client, container
        self.ended = False
        self.exit_code: int | None = None
        self.left_at: float | None = None
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
        self._id: str = made["Id"]
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
        found = self._client.exec_inspect(self._id)
        if not found["Running"]:
            self.exit_code = found["ExitCode"]
            self.left_at = self.left_at or now
            self.ended = self._relay.ended
        elif self._relay.ended:
            state = self._client.inspect_container(self._container)["State"]
            self.ended = not state["Running"]

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
