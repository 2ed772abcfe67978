"""Run the application with the injected library, and yield its events."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import NamedTuple, Union

from nvprof.users import Users

FROM_OTHERS = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
FORWARDED = (*FROM_OTHERS, *FROM_TERMINAL)
"""Not SIGTSTP and SIGCONT: a shell must see nvprof itself stop and continue."""

LOOK_S = 1.0
"""Seconds between checks whether the child has exited, in case SIGCHLD was missed."""

GRACE_S = 5.0
"""Seconds from SIGTERM to SIGKILL after --timeout."""

LAST_S = 0.1
"""Seconds between checks for remaining processes, whose end sends no signal here."""


class Began(NamedTuple):
    """The application was started."""

    pid: int


class Started(NamedTuple):
    """A process started to use CUDA and records to `file`."""

    pid: int
    file: Path


class Ended(NamedTuple):
    """A process has finished its recording."""

    pid: int


class Warned(NamedTuple):
    """The library reports why a process is not recorded."""

    pid: int
    text: str


class Exited(NamedTuple):
    """The application exited; a negative status is a signal, as in subprocess."""

    status: int


class TimedOut(NamedTuple):
    """The application exceeded --timeout and is sent SIGTERM."""


Reported = Union[Started, Ended, Warned]
Event = Union[Began, Started, Ended, Warned, TimedOut, Exited]


class NotStarted(Exception):
    """The application cannot be started; `status` is what a shell would return."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class Folder:
    """The session's folder: the processes' recordings, and the FIFO of events."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fifo = path / "events"
        os.mkfifo(self._fifo, 0o600)
        # Opened for reading and writing, so that opening it never blocks.
        self.events = os.open(self._fifo, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    @classmethod
    def make(cls, beside: Path | None) -> Folder:
        """Make it in a folder, or else in that for temporary files; raise OSError."""
        for parent in (beside, None) if beside else (None,):
            path = Path(tempfile.mkdtemp(prefix=".nvprof-", dir=parent))
            try:
                return cls(path.resolve())
            except OSError:
                shutil.rmtree(path, ignore_errors=True)
                if parent is None:
                    raise
        raise AssertionError("unreachable")

    def remove(self) -> None:
        """Remove the folder and its contents."""
        os.close(self.events)
        shutil.rmtree(self.path, ignore_errors=True)

    def recordings(self) -> list[Path]:
        """Return the processes' recordings."""
        return sorted(self.path.glob("*.prof"))


def environment(
    given: Mapping[str, str],
    library: Path,
    folder: Path,
    *,
    records: bool,
    from_start: bool,
    demangle: bool,
) -> dict[str, str]:
    """Return an environment in which CUDA loads the library."""
    return {
        **given,
        "CUDA_INJECTION64_PATH": str(library),
        "NVPROF_SESSION": str(folder),
        "NVPROF_TRACE": str(int(records)),
        "NVPROF_FROM_START": str(int(from_start)),
        "NVPROF_DEMANGLE": str(int(demangle)),
    }


def parse_events(text: bytes, folder: Path) -> tuple[list[Reported], bytes]:
    """Parse lines `start PID FILE`, `end PID`, `warn PID TEXT`; return events and rest.

    Other lines are ignored.
    """
    *lines, rest = text.split(b"\n")
    found: list[Reported] = []
    for line in lines:
        word, _, more = line.partition(b" ")
        pid, _, what = more.partition(b" ")
        if not pid.isdigit():
            continue
        if word == b"end":
            found.append(Ended(int(pid)))
        elif word == b"start" and what and b"/" not in what:
            found.append(Started(int(pid), folder / os.fsdecode(what)))
        elif word == b"warn" and what:
            found.append(Warned(int(pid), what.decode("utf-8", "replace")))
    return found, rest


def run(
    command: Sequence[str],
    environ: Mapping[str, str],
    folder: Folder | None,
    timeout: float | None = None,
) -> Iterator[Event]:
    """Run a command in this process group with inherited streams; yield its events.

    Raises NotStarted.
    """
    with _Signals() as signals:
        child = _started(command, environ)
        yield Began(child.pid)
        text, files = b"", [signals.fd]
        files += [folder.events] if folder else []
        users, limit = Users(), _TimeOut(timeout)
        while True:
            status = child.poll()
            if status is None or limit.expects():
                most = LOOK_S if status is None else LAST_S
                select.select(files, [], [], limit.wait(most))
            if folder is not None:
                found, text = parse_events(text + _ready(folder.events), folder.path)
                for event in found:
                    limit.begin()
                    if isinstance(event, Ended):
                        users.ended(event.pid)
                    elif event.pid != child.pid:
                        users.began(event.pid)
                yield from found
            if status is not None and not (limit.expects() and users.left()):
                yield Exited(status)
                return
            for number in signals.taken():
                if _for_child(number):
                    child.send_signal(number)
            deadly = limit.due()
            if deadly is not None:
                # Signal the CUDA processes too: a wrapper may exit without them.
                child.send_signal(deadly)
                users.kill(deadly)
                if limit.turn == 1:
                    yield TimedOut()


class _TimeOut:
    """The time limit: SIGTERM when it is over, and SIGKILL after GRACE_S."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._deadline: float | None = None
        self.turn = 0

    def begin(self) -> None:
        """Start the clock at the first use of CUDA."""
        if self._seconds is not None and self._deadline is None:
            self._deadline = time.monotonic() + self._seconds

    def wait(self, most: float) -> float:
        """Return the seconds until the next signal, at most `most`."""
        if self._deadline is None:
            return most
        return min(most, max(0.0, self._deadline - time.monotonic()))

    def expects(self) -> bool:
        """Return whether signalled processes still have time to exit."""
        return self.turn in (1, 2)

    def due(self) -> signal.Signals | None:
        """Return the signal to send now, if any."""
        if self._deadline is None or time.monotonic() < self._deadline:
            return None
        self._deadline = time.monotonic() + GRACE_S
        self.turn += 1
        return signal.SIGTERM if self.turn == 1 else signal.SIGKILL


def _started(
    command: Sequence[str], environ: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    try:
        # The application inherits this process's descriptors, such as those of a
        # shell's <(...), make's and MPI's. All that nvprof opens is closed by exec.
        return subprocess.Popen(list(command), env=dict(environ), close_fds=False)
    except FileNotFoundError as error:
        raise NotStarted(f"application not found: {command[0]}", 127) from error
    except OSError as error:
        text = f"cannot run application: {command[0]}: {error.strerror}"
        raise NotStarted(text, 126) from error


def _ready(fd: int) -> bytes:
    """Read what is available without blocking."""
    parts = []
    while True:
        try:
            part = os.read(fd, 1 << 16)
        except BlockingIOError:
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts)


def _for_child(number: int) -> bool:
    """Return whether to forward a signal; the terminal sends some to both."""
    if number not in FORWARDED:
        return False
    return not (number in FROM_TERMINAL and _in_foreground())


def _in_foreground() -> bool:
    for fd in (0, 1, 2):
        try:
            return os.tcgetpgrp(fd) == os.getpgrp()
        except OSError:
            continue
    return False


class _Signals:
    """Turn signals into bytes in a pipe while the application runs."""

    def __enter__(self) -> _Signals:
        self.fd, self._end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before: dict[int, object] = {}
        for number in (*FORWARDED, signal.SIGCHLD):
            before = signal.getsignal(number)
            # Signals ignored by nohup or a shell stay ignored, here and in the child.
            if number == signal.SIGCHLD or before != signal.SIG_IGN:
                self._before[number] = before
                signal.signal(number, _nothing)
        self._wakeup = signal.set_wakeup_fd(self._end, warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._wakeup)
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]
        os.close(self.fd)
        os.close(self._end)

    def taken(self) -> bytes:
        """Return the numbers of the received signals."""
        return _ready(self.fd)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Do nothing; Python has written the signal's number to the pipe."""


def end_as(status: int) -> int:
    """Return an exit status; if the child died of a signal, die of the same."""
    if status >= 0:
        return status
    number = -status
    if number != signal.SIGKILL:
        # A core dump of this process would be of no use.
        _no_core()
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
    return 128 + number


def _no_core() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
