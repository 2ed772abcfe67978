"""Start other programs, which end with this one or outlive it; no other room does."""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO

from msgspec import Struct

from runner.core import Problem, Reason, Stream
from runner.core.errors import Cancel, EngineError
from runner.core.events import SMALL_BYTES, Output, OutputPace, Tick
from runner.system import guard
from runner.system.child import (
    Argv,
    Child,
    Ended,
    ProcessStop,
    checked_beside,
    exit_code,
    kill,
    readable,
    signal_group,
    start,
)
from runner.system.machine import used

if sys.platform == "linux":
    import fcntl


READ_BYTES = 1 << 18
PIPE_BYTES = 1 << 20
POLL_S = 0.1
TICK_S = 1.0
DRAIN_S = 0.25


Room = dict[Stream, int]
"""How many bytes each stream may still bring, of one command or of several."""


class Completed(Struct, frozen=True):
    """The output of a program; ``exit_code`` is 128 + n after signal n."""

    exit_code: int
    stdout: bytes
    stderr: bytes


def run(
    argv: Argv,
    *,
    input: bytes | None = None,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    cancel: Cancel | None = None,
) -> Completed:
    """Run a program to its end and return its output, whatever its exit code.

    With a ``cancel`` the ``input`` has to fit into a pipe (64 KiB).

    Raises:
        EngineError: it cannot be started, does not end within ``timeout_s``, or was
            killed for a ``cancel`` (cancelled).
    """
    process = start(argv, env, cwd, stdin=subprocess.PIPE if input else None)
    deadline = time.monotonic() + timeout_s
    shown = " ".join(map(str, argv))[:120]
    try:
        while True:
            left = max(deadline - time.monotonic(), 0.0)
            try:
                stdout, stderr = process.communicate(
                    input, timeout=min(left, POLL_S) if cancel else left
                )
                break
            except subprocess.TimeoutExpired:
                input = None  # the pipe has it
                if time.monotonic() >= deadline:
                    text = f"`{shown}` did not end within {timeout_s:g} s"
                    kill(process)
                    raise EngineError(text) from None
                if cancel and cancel.requested:
                    text = f"`{shown}` was stopped"
                    kill(process)
                    raise EngineError(text, reason=Reason.CANCELLED) from None
    except KeyboardInterrupt:
        kill(process)
        raise
    finally:
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
    return Completed(exit_code(process.returncode), stdout, stderr)


def room(most_bytes: int) -> Room:
    """Return room for so many bytes of stdout, and as many of stderr."""
    return dict.fromkeys(Stream, most_bytes)


def stream(
    argv: Argv,
    *,
    input: bytes | IO[bytes] | None = None,
    timeout_s: float,
    cancel: Cancel,
    room: Room,
    grace_s: float = 10.0,
    index: int = 0,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    watch: Callable[[], Reason | None] | None = None,
    terminate: Callable[[int], None] | None = None,
) -> Generator[Output | Tick, None, Ended]:
    """Run a command; yield its output as it comes, and a Tick each second.

    It runs in a new session without a terminal; its stdin is ``input``. At a limit or a
    cancel ``terminate`` is called with its process id (default: SIGTERM to its group),
    and after ``grace_s`` its group is killed. ``watch`` is called ten times a second,
    and returns a reason to end the command. Processes left in its group are killed.
    What it prints is taken off ``room``.
    The group is also killed if this process dies.

    Raises:
        EngineError: it cannot be started, or does not end when killed.
    """
    guard.start()
    started = time.monotonic()
    with readable(input) as stdin:
        child = _PipedChild(start(argv, env, cwd, stdin), started, index, room)
    end = terminate or partial(signal_group, number=signal.SIGTERM)
    stop = ProcessStop(started + timeout_s, grace_s, cancel, watch, child, end)
    try:
        with checked_beside(stop.check):
            yield from _follow(child, stop)
        # A short command may end before ``stop`` notices the limit.
        late = Reason.OUTPUT_LIMIT if child.over_limit else None
        return child.reap(stop.reason or late)
    finally:
        child.close()


class _PipedChild(Child):
    """A started command, its two pipes, and how much output they may still bring."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        started: float,
        index: int,
        room: Room,
    ) -> None:
        super().__init__(process, started)
        self.index = index
        self._left = room
        self._selector = selectors.DefaultSelector()
        self.pipes: set[IO[bytes]] = set()
        self._open(process.stdout, Stream.STDOUT)
        self._open(process.stderr, Stream.STDERR)
        self._end = selectors.DefaultSelector()
        self._pidfd = os.pidfd_open(self.pid) if sys.platform == "linux" else None
        if self._pidfd is not None:
            self._end.register(self._pidfd, selectors.EVENT_READ)
            self._selector.register(self._pidfd, selectors.EVENT_READ)

    def read(self, wait_s: float) -> Generator[Output, None, None]:
        """Wait for output or the command's end; yield the output."""
        for key, _ in self._selector.select(wait_s):
            if key.data is None:  # the process ended; only its pipes remain
                self._selector.unregister(key.fd)
                continue
            pipe, stream = key.data
            data = os.read(key.fd, READ_BYTES)
            if not data:
                self._shut(pipe)
                continue
            kept = data[: self._left[stream]]
            self._left[stream] -= len(kept)
            self.over_limit = self.over_limit or len(kept) < len(data)
            if kept:
                yield Output(self.index, stream, kept)

    def pause(self, wait_s: float) -> None:
        """Wait for more output, unless the command ends."""
        self._end.select(wait_s)

    def close(self) -> None:
        """Kill the command if it still runs, and close every descriptor."""
        super().close()
        for pipe in tuple(self.pipes):
            self._shut(pipe)
        self._selector.close()
        self._end.close()
        if self._pidfd is not None:
            os.close(self._pidfd)

    def _open(self, pipe: IO[bytes] | None, stream: Stream) -> None:
        assert pipe is not None  # Popen was called with PIPE
        if sys.platform == "linux":
            with contextlib.suppress(OSError):  # over this user's limit of pipe memory
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self.pipes.add(pipe)
        self._selector.register(pipe, selectors.EVENT_READ, (pipe, stream))

    def _shut(self, pipe: IO[bytes]) -> None:
        self._selector.unregister(pipe)
        self.pipes.discard(pipe)
        pipe.close()


def _follow(
    child: _PipedChild, stop: ProcessStop
) -> Generator[Output | Tick, None, None]:
    """Yield output until the command has ended and its pipes are empty."""
    ticked, pace = child.started, OutputPace()
    while not child.has_ended():
        stop.check()
        wait = min(POLL_S, max(stop.deadline - time.monotonic(), 0.0) or POLL_S)
        amount = 0
        for output in child.read(wait):
            amount += len(output.data)
            yield output
            pace.count(1)
        now = time.monotonic()
        if now - ticked >= TICK_S:
            ticked = now
            usage = used(child.pid)
            yield Tick(child.index, now - child.started, *usage)
        if 0 < amount < SMALL_BYTES:  # so that many short lines make fewer events
            child.pause(pace.gather_s)
    yield from _drain(child)


def _drain(child: _PipedChild) -> Generator[Output, None, None]:
    """Read to the end of the pipes; kill the group if they stay open for DRAIN_S.

    Only silence while this waits counts, not the time that the caller takes. Output of
    more than the pipes can hold was written after the command's end, and ends this too.
    """
    for _ in range(2):
        silent_s, amount = 0.0, 0
        while child.pipes and silent_s < DRAIN_S and amount <= 2 * PIPE_BYTES:
            began = time.monotonic()
            outputs = list(child.read(POLL_S))
            silent_s = 0.0 if outputs else silent_s + time.monotonic() - began
            amount += sum(len(output.data) for output in outputs)
            yield from outputs
        signal_group(child.pid, signal.SIGKILL)


def python(module: str) -> list[str]:
    """Return the command line of a module of this program."""
    return [sys.executable, "-m", module]


class Detached:
    """A program in a session of its own, with pipes to its stdin and from its stdout.

    No terminal, signal or end of this process reaches it. Its stderr is this one's
    until it chooses another.
    """

    def __init__(
        self, argv: Sequence[str | Path], env: Mapping[str, str] | None = None
    ) -> None:
        """Start it in the root folder, so that it keeps no folder busy.

        ``env`` is its whole environment, by default this process's.

        Raises:
            EngineError: it cannot be started.
        """
        try:
            self._process = subprocess.Popen(
                argv,
                cwd="/",
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            problem = Problem(f"cannot start {argv[0]}: {error.strerror}")
            raise EngineError(problem) from error

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def write(self, data: bytes) -> None:
        """Write to its stdin; raise OSError if it has ended."""
        assert self._process.stdin
        left = memoryview(data)
        while left:
            left = left[self._process.stdin.write(left) or 0 :]

    def read_line(self, timeout_s: float, most_bytes: int) -> bytes:
        """Return the next line of its stdout; b"" if it ends, or none comes in time."""
        assert self._process.stdout
        handle, line = self._process.stdout.fileno(), b""
        ready = select.poll()
        ready.register(handle, select.POLLIN)
        until = time.monotonic() + timeout_s
        while not line.endswith(b"\n") and len(line) < most_bytes:
            left_s = until - time.monotonic()
            if left_s <= 0 or not ready.poll(left_s * 1000):
                return b""
            if not (piece := os.read(handle, most_bytes - len(line))):
                return b""
            line += piece
        return line

    def leave(self) -> None:
        """Close its pipes and let it go on; a thread waits for its end."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe
            with contextlib.suppress(OSError):
                pipe.close()
        # Else it stays a zombie for as long as this process lives.
        threading.Thread(
            target=self._process.wait, name="rai-wait", daemon=True
        ).start()
