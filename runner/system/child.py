"""A started program: its stdin, the limits that end it, and its end."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO, cast

from msgspec import Struct, field

from runner.core import Problem, Reason
from runner.core.errors import Cancel, EngineError
from runner.system import guard

KILLED_S = 1.0
UNKILLABLE_S = 10.0

Argv = Sequence[str | Path]

EVERY_S = 1.0

JOIN_S = 5.0

KEPT_BYTES = 2000
READ_BYTES = 1 << 12
POLL_S = 0.05


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


def start(
    argv: Argv,
    env: Mapping[str, str] | None,
    cwd: Path | None,
    stdin: int | None = None,
    stdout: int = subprocess.PIPE,
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own; its stderr is a pipe."""
    try:
        return subprocess.Popen(
            [str(word) for word in argv],
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=env,
            cwd=cwd,
            bufsize=0,
            # So that a limit can end all processes that it started.
            start_new_session=True,
        )
    except OSError as error:
        text = f"`{argv[0]}` cannot be started: {error.strerror or error}"
        hint = "install it, or add its folder to PATH"
        raise EngineError(Problem(text, hint=hint)) from error


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and wait up to KILLED_S.

    One that waits for a broken driver cannot be killed, and is left behind.
    """
    signal_group(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(KILLED_S)


def signal_group(pid: int, number: int) -> None:
    """Send a signal to a process group, if it is there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def exit_code(returncode: int) -> int:
    """Return 128 + n for the end by signal n, which Popen has as -n."""
    return returncode if returncode >= 0 else 128 - returncode


class Child:
    """A started program, whose group is killed if this process dies.

    ``over_limit`` says that it printed too much.
    """

    def __init__(self, process: subprocess.Popen[bytes], started: float) -> None:
        self.process, self.pid = process, process.pid
        guard.add(self.pid)
        self.started = started
        self.ended: float | None = None
        self.over_limit = False

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
            exit_code=exit_code(self.process.returncode),
            wall_s=(self.ended or time.monotonic()) - self.started,
            cpu_s=usage.ru_utime + usage.ru_stime,
            max_rss_bytes=usage.ru_maxrss * 1024,
            reason=reason,
        )

    def close(self) -> None:
        """Kill the program if it still runs."""
        if self.process.returncode is None:
            signal_group(self.pid, signal.SIGKILL)
            guard.discard(self.pid)
            self.process.wait()


class ProcessStop(Struct):
    """Whether and why a command must be ended."""

    deadline: float
    grace_s: float
    cancel: Cancel
    watch: Callable[[], Reason | None] | None
    child: Child
    terminate: Callable[[int], None]
    reason: Reason | None = None
    kill_at: float | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def check(self) -> None:
        """Terminate the command if it must end, and kill it after the grace period.

        One that takes too much of the disk is killed at once, as it would take more.
        Any thread may call it.
        """
        with self.lock:
            now = time.monotonic()
            if self.child.has_ended():
                return
            if self.kill_at is None:
                self.reason = self._why(now)
                if self.reason is None:
                    return
                self.kill_at = now + self.grace_s
                self.terminate(self.child.pid)
            if self.reason is Reason.DISK_LIMIT or (self.watch and self.watch()):
                self.kill_at = min(self.kill_at, now)
            if now > self.kill_at + UNKILLABLE_S:
                raise EngineError(f"process {self.child.pid} does not end when killed")
            if now >= self.kill_at:
                signal_group(self.child.pid, signal.SIGKILL)

    def _why(self, now: float) -> Reason | None:
        if self.child.over_limit:
            return Reason.OUTPUT_LIMIT
        if self.cancel.requested:
            return Reason.CANCELLED
        if now >= self.deadline:
            return Reason.TIME_LIMIT
        return self.watch() if self.watch else None


@contextmanager
def readable(data: bytes | IO[bytes] | None) -> Iterator[int | None]:
    """Provide a descriptor from which a program reads the data; None for no data.

    A file is read from where it stands. On Linux other data is on no disk. Unlike a
    pipe it takes any amount at once.
    """
    if data is None:
        yield None
        return
    if not isinstance(data, bytes):
        yield data.fileno()
        return
    file: BinaryIO
    if sys.platform == "linux":
        file = open(os.memfd_create("stdin"), "w+b", buffering=0)  # noqa: PTH123, SIM115
    else:
        import tempfile  # slow to load, and not needed on Linux

        file = cast("BinaryIO", tempfile.TemporaryFile(buffering=0))  # noqa: SIM115
    with file:
        file.write(data)
        file.seek(0)
        yield file.fileno()


@contextmanager
def checked_beside(check: Callable[[], None]) -> Iterator[None]:
    """Call ``check`` every second, until the block ends.

    A terminal or a pipe that nobody reads stops the process that writes to it. The
    limits of a run's commands must hold meanwhile. What ``check`` raises is left to
    those who call it in the run itself.
    """
    over = threading.Event()

    def watch() -> None:
        while not over.wait(EVERY_S):
            with suppress(EngineError):
                check()

    thread = threading.Thread(target=watch, name="rai-limits", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(JOIN_S)


class Beside(Child):
    """The program; it is killed with its group at the end, or if this process dies.

    Its errors are read all the time, so that it never waits for that; few are kept.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__(process, time.monotonic())
        self._complaint = b""
        self._reader = threading.Thread(target=self._read_errors, daemon=True)
        self._reader.start()

    def says(self, line: bytes, wait_s: float, other: Child | None = None) -> bool:
        """Wait until it prints a line; return whether it did, before its end.

        If the ``other`` one ends, that is waited for no longer.
        """
        said, deadline = b"", time.monotonic() + wait_s
        pipe = self.process.stdout
        assert pipe is not None
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while (left := deadline - time.monotonic()) > 0 and len(said) < KEPT_BYTES:
                if not selector.select(min(left, POLL_S)):
                    if other is not None and other.has_ended():
                        break
                    continue
                data = os.read(pipe.fileno(), 1)
                said += data
                if said.endswith(line + b"\n"):
                    return True
                if not data:
                    break
        return False

    @property
    def complaint(self) -> str:
        """The last line that it printed to stderr."""
        lines = self._complaint.decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""

    def close(self) -> None:
        """Kill it."""
        super().close()
        self._reader.join(1.0)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _read_errors(self) -> None:
        pipe = self.process.stderr
        assert pipe is not None
        with suppress(OSError, ValueError):
            while data := os.read(pipe.fileno(), READ_BYTES):
                self._complaint = (self._complaint + data)[-KEPT_BYTES:]


@contextmanager
def beside(
    argv: Argv, env: Mapping[str, str], *, heard: bool = False
) -> Iterator[Beside]:
    """Run a program until the block ends. Its stdin is a pipe that stays open.

    What it prints to stdout is dropped, unless that is ``heard``.
    """
    guard.start()
    stdout = subprocess.PIPE if heard else subprocess.DEVNULL
    program = Beside(start(argv, env, None, subprocess.PIPE, stdout))
    try:
        yield program
    finally:
        program.close()
