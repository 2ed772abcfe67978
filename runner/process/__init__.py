"""Start other programs; no other module does.

``run`` returns the whole output of a short program; ``stream`` yields a job's command's
output as it comes.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import IO

from msgspec import Struct

from runner import guard
from runner.core import Problem, Reason, Stream
from runner.core.cancel import Cancel
from runner.core.errors import EngineError
from runner.core.events import Output, Tick
from runner.process import memory
from runner.process.others import descendants, kill_marked
from runner.process.usage import used

if sys.platform == "linux":
    import fcntl

__all__ = [
    "Completed",
    "Ended",
    "descendants",
    "kill_marked",
    "run",
    "stream",
]

READ_BYTES = 1 << 18
PIPE_BYTES = 1 << 20
POLL_S = 0.1
TICK_S = 1.0
DRAIN_S = 0.25
GATHER_S = 0.002
SMALL_BYTES = 1 << 15
UNKILLABLE_S = 10.0
KILLED_S = 1.0

Argv = Sequence[str | Path]


class Completed(Struct, frozen=True):
    """The output of a program; ``exit_code`` is 128 + n after signal n."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class Ended(Struct, frozen=True):
    """How a command ended; ``reason`` is None if it ended by itself.

    ``cpu_s`` includes the children it waited for; ``max_rss_bytes`` is that of the
    largest of these processes, and at least what this process had when it forked.
    """

    exit_code: int
    wall_s: float
    cpu_s: float
    max_rss_bytes: int
    reason: Reason | None


def run(
    argv: Argv,
    *,
    input: bytes | None = None,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Completed:
    """Run a program to its end and return its output, whatever its exit code.

    Raises:
        EngineError: it cannot be started, or does not end within ``timeout_s``.
    """
    process = _start(argv, env, cwd, stdin=subprocess.PIPE if input else None)
    try:
        stdout, stderr = process.communicate(input, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _kill(process)
        raise EngineError(
            f"`{_shown(argv)}` did not end within {timeout_s:g} s"
        ) from None
    except KeyboardInterrupt:
        _kill(process)
        raise
    finally:
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
    return Completed(_exit_code(process.returncode), stdout, stderr)


def stream(
    argv: Argv,
    *,
    input: bytes | None = None,
    timeout_s: float,
    cancel: Cancel,
    output_limit: int,
    stderr_extra: int = 0,
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
    ``stderr_extra`` bytes of stderr are not counted: they are not the command's own.
    The group is also killed if this process dies.

    Raises:
        EngineError: it cannot be started, or does not end when killed.
    """
    guard.start()
    started = time.monotonic()
    room = {Stream.STDOUT: output_limit, Stream.STDERR: output_limit + stderr_extra}
    with memory.readable(input) as stdin:
        child = _Child(_start(argv, env, cwd, stdin), started, index, room)
    stop = _ProcessStop(
        started + timeout_s, grace_s, cancel, watch, child, terminate or _terminate
    )
    try:
        yield from _follow(child, stop)
        # A short command may end before ``stop`` notices the limit.
        late = Reason.OUTPUT_LIMIT if child.over_limit else None
        return child.reap(stop.reason or late)
    finally:
        child.close()


def _start(
    argv: Argv,
    env: Mapping[str, str] | None,
    cwd: Path | None,
    stdin: int | None = None,
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            [str(word) for word in argv],
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=cwd,
            bufsize=0,
            # So that a limit can end all processes that it started.
            start_new_session=True,
        )
    except OSError as error:
        raise EngineError(
            Problem(
                f"`{argv[0]}` cannot be started: {error.strerror or error}",
                hint="install it, or add its folder to PATH",
            )
        ) from error


def _shown(argv: Argv) -> str:
    return " ".join(str(word) for word in argv)[:120]


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and wait up to KILLED_S.

    One that waits for a broken driver cannot be killed, and is left behind.
    """
    _signal_group(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(KILLED_S)


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _terminate(pid: int) -> None:
    _signal_group(pid, signal.SIGTERM)


def _exit_code(returncode: int) -> int:
    return returncode if returncode >= 0 else 128 - returncode


class _Child:
    """A started command, its two pipes, and how much output they may still bring."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        started: float,
        index: int,
        room: dict[Stream, int],
    ) -> None:
        self.process, self.pid, self.index = process, process.pid, index
        guard.add(self.pid)
        self.started = started
        self.ended: float | None = None
        self.over_limit = False
        self._left = room
        self._selector = selectors.DefaultSelector()
        self._pipes: set[IO[bytes]] = set()
        self._open(process.stdout, Stream.STDOUT)
        self._open(process.stderr, Stream.STDERR)
        self._end = selectors.DefaultSelector()
        self._pidfd = os.pidfd_open(self.pid) if sys.platform == "linux" else None
        if self._pidfd is not None:
            self._end.register(self._pidfd, selectors.EVENT_READ)
            self._selector.register(self._pidfd, selectors.EVENT_READ)

    @property
    def silent(self) -> bool:
        """Whether both pipes are at their end."""
        return not self._pipes

    def read(self, wait_s: float) -> Generator[Output, None, None]:
        """Wait for output or the command's end; yield the output."""
        for key, _ in self._selector.select(wait_s):
            if key.data is None:  # the process ended; only its pipes remain
                self._selector.unregister(key.fd)
                continue
            data = os.read(key.fd, READ_BYTES)
            if not data:
                self._shut(key.data[0])
            elif kept := self._within_limit(key.data[1], data):
                yield Output(self.index, key.data[1], kept)

    def pause(self, wait_s: float) -> None:
        """Wait for more output, unless the command ends."""
        self._end.select(wait_s)

    def has_ended(self) -> bool:
        """Whether the command ended; it is not reaped.

        Until it is reaped, no other process or group can get its id.
        """
        if self.ended is None:
            flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
            if os.waitid(os.P_PID, self.pid, flags) is not None:
                self.ended = time.monotonic()
        return self.ended is not None

    def reap(self, reason: Reason | None) -> Ended:
        """Reap the ended command; return its exit code and usage."""
        guard.discard(self.pid)
        _, status, usage = os.wait4(self.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return Ended(
            exit_code=_exit_code(self.process.returncode),
            wall_s=(self.ended or time.monotonic()) - self.started,
            cpu_s=usage.ru_utime + usage.ru_stime,
            max_rss_bytes=usage.ru_maxrss * 1024,
            reason=reason,
        )

    def close(self) -> None:
        """Kill the command if it still runs, and close every descriptor."""
        if self.process.returncode is None:
            _signal_group(self.pid, signal.SIGKILL)
            guard.discard(self.pid)
            self.process.wait()
        for pipe in tuple(self._pipes):
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
        self._pipes.add(pipe)
        self._selector.register(pipe, selectors.EVENT_READ, (pipe, stream))

    def _shut(self, pipe: IO[bytes]) -> None:
        self._selector.unregister(pipe)
        self._pipes.discard(pipe)
        pipe.close()

    def _within_limit(self, stream: Stream, data: bytes) -> bytes:
        kept = data[: self._left[stream]]
        self._left[stream] -= len(kept)
        self.over_limit = self.over_limit or len(kept) < len(data)
        return kept


class _ProcessStop(Struct):
    """Whether and why a command must be ended."""

    deadline: float
    grace_s: float
    cancel: Cancel
    watch: Callable[[], Reason | None] | None
    child: _Child
    terminate: Callable[[int], None]
    reason: Reason | None = None
    kill_at: float | None = None

    def check(self) -> None:
        """Terminate the command if it must end, and kill it after the grace period."""
        now = time.monotonic()
        if self.kill_at is None:
            self.reason = self._why(now)
            if self.reason is not None:
                self.kill_at = now + self.grace_s
                self.terminate(self.child.pid)
        elif now > self.kill_at + UNKILLABLE_S:
            raise EngineError(f"process {self.child.pid} does not end when killed")
        elif now > self.kill_at:
            _signal_group(self.child.pid, signal.SIGKILL)

    def _why(self, now: float) -> Reason | None:
        if self.child.over_limit:
            return Reason.OUTPUT_LIMIT
        if self.cancel.requested:
            return Reason.CANCELLED
        if now >= self.deadline:
            return Reason.TIME_LIMIT
        return self.watch() if self.watch else None


def _follow(child: _Child, stop: _ProcessStop) -> Generator[Output | Tick, None, None]:
    """Yield output until the command has ended and its pipes are empty."""
    ticked = child.started
    while not child.has_ended():
        stop.check()
        wait = min(POLL_S, max(stop.deadline - time.monotonic(), 0.0) or POLL_S)
        amount = 0
        for output in child.read(wait):
            amount += len(output.data)
            yield output
        now = time.monotonic()
        if now - ticked >= TICK_S:
            ticked = now
            usage = used(child.pid)
            yield Tick(child.index, now - child.started, *usage)
        if 0 < amount < SMALL_BYTES:  # so that many short lines make fewer events
            child.pause(GATHER_S)
    yield from _drain(child)


def _drain(child: _Child) -> Generator[Output, None, None]:
    """Read to the end of the pipes; kill the group if they stay open for DRAIN_S.

    Only silence while this waits counts, not the time that the caller takes. Output of
    more than the pipes can hold was written after the command's end, and ends this too.
    """
    for _ in range(2):
        silent_s, amount = 0.0, 0
        while not child.silent and silent_s < DRAIN_S and amount <= 2 * PIPE_BYTES:
            began = time.monotonic()
            outputs = list(child.read(POLL_S))
            silent_s = 0.0 if outputs else silent_s + time.monotonic() - began
            amount += sum(len(output.data) for output in outputs)
            yield from outputs
        _signal_group(child.pid, signal.SIGKILL)
