"""Run rai: in this process, or as a program in a tenth of the time that loading takes.

``rai`` calls it here, with a folder, variables and streams of its own meanwhile. What
is about signals, terminals or closed streams has a process of its own, ``Forked``. For
these each process of the tests has a server that has loaded rai, waits and forks. What
is about the start itself, or needs another user, starts the program as a user does.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import gc
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn, TextIO

RAI = str(Path(sys.executable).with_name("rai"))
ROOT = Path(__file__).resolve().parents[2]
FOUND_BY = ("PATH", "HOME", "PYTHONUSERBASE", "CUDA_VISIBLE_DEVICES")
"""Variables by which rai finds what it then remembers of this machine."""
USUAL = [os.environ.get(name) for name in FOUND_BY]
STREAMS = ("stdin", "stdout", "stderr")
LOADED = ("cli", "execution", "terminal", "engines", "report", "store", "server")
"""The packages that the server loads with all in them."""
Streams = Mapping[int, str | None]
PIPES: Streams = {}
File = int | IO[Any] | None


def run_program(
    argv: Sequence[str | Path], *, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run any program to its end, with its output as text.

    ``options`` are those of ``subprocess.run``.
    """
    return subprocess.run(argv, check=check, capture_output=True, text=True, **options)


def rai(*words: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run rai to its end as ``rai_bytes`` does, with its output as text."""
    done = rai_bytes(*words, **options)
    out, error = (_text(stream) for stream in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(done.args, done.returncode, out, error)


def rai_bytes(
    *words: str | Path,
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    input: str = "",
) -> subprocess.CompletedProcess[bytes]:
    """Run rai to its end in this process; ``input`` is its stdin."""
    from runner.cli import main

    argv, status = [RAI, *map(str, words)], 0
    with (
        tempfile.TemporaryFile() as stdin,
        ThreadPoolExecutor(2) as readers,
        _read(readers) as (stdout, out),
        _read(readers) as (stderr, error),
    ):
        stdin.write(input.encode())
        stdin.seek(0)
        ends = [stdin.fileno(), stdout, stderr]
        try:
            with _as_program(argv, _folder(cwd), _environment(env), ends):
                main._WARNED.clear()
                main.main()
        except _Ended as ended:
            status = ended.status
    return subprocess.CompletedProcess(argv, status, out.result(), error.result())


class Forked:
    """rai in a process of its own, with what tests need of ``Popen``'s methods.

    ``streams`` names files for its streams, by their numbers; None closes one. The
    leader of a ``session`` has its stdin as terminal.
    """

    def __init__(
        self,
        *words: str | Path,
        cwd: Path | str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: File = None,
        stdout: File = None,
        stderr: File = None,
        streams: Streams = PIPES,
        session: bool = False,
    ) -> None:
        self.args, self.returncode = [RAI, *map(str, words)], None
        order = (self.args, _folder(cwd), _environment(env), dict(streams), session)
        self._status, theirs = socket.socketpair()
        with ExitStack() as given:
            given.enter_context(theirs)
            null = given.enter_context(Path(os.devnull).open("r+b", 0))
            ends: list[int] = []
            self.stdout, self.stderr = None, None
            for name, file in zip(STREAMS, (stdin, stdout, stderr), strict=True):
                if file == subprocess.PIPE:
                    read, write = os.pipe()
                    file = given.enter_context(os.fdopen(write, "wb", 0))
                    setattr(self, name, os.fdopen(read, "r", errors="replace"))
                elif file == subprocess.STDOUT:
                    file = ends[1]
                file = null if file is None else file
                ends.append(file if isinstance(file, int) else file.fileno())
            socket.send_fds(_server(), [b"."], [*ends, theirs.fileno()])
        with self._status.makefile("wb") as channel:
            pickle.dump(order, channel)
        self.pid = self._number()

    def _number(self) -> int:
        data = self._status.recv(8, socket.MSG_WAITALL)
        assert len(data) == 8, "the process that waits for rai was killed"
        return int.from_bytes(data, signed=True)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end, and return the exit status; -n after the signal n."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = self._number()
            self._status.close()
        return self.returncode

    def poll(self) -> int | None:
        """Return the exit status if it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Return the rest of its output, after its end; stderr fits into a pipe."""
        out, error = (
            file.read() if file else "" for file in (self.stdout, self.stderr)
        )
        self.wait(timeout)
        self.close()
        return out, error

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        self.close()

    def close(self) -> None:
        """Close its pipes."""
        for file in filter(None, (self.stdout, self.stderr)):
            file.close()

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        self.send_signal(signal.SIGKILL)


def forked(
    *words: str | Path,
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    input: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run rai to its end as ``rai`` does, in a process of its own."""
    with ExitStack() as opened:
        files = [opened.enter_context(tempfile.TemporaryFile()) for _ in STREAMS]
        files[0].write(input.encode())
        files[0].seek(0)
        given = dict(zip(STREAMS, files, strict=True))
        child = Forked(*words, cwd=cwd, env=env, **given)
        status = child.wait(600.0)
        for file in files[1:]:
            file.seek(0)
        out, error = (_text(file.read()) for file in files[1:])
    return subprocess.CompletedProcess(child.args, status, out, error)


def _text(data: bytes) -> str:
    return data.decode(errors="replace").replace("\r\n", "\n")


def _environment(env: Mapping[str, str] | None) -> dict[str, str]:
    return dict(os.environ if env is None else env)


def _folder(cwd: Path | str | None) -> str:
    """Return where rai runs; this project is not what `latest` is of."""
    here = Path.cwd()
    return str(cwd or (tempfile.gettempdir() if here == ROOT else here))


# In this process.


@contextmanager
def _read(readers: Executor) -> Iterator[tuple[int, Future[bytes]]]:
    """Yield the write end of a pipe, and a future of what is read from it.

    Programs that rai left to themselves may have that end too, and go on.
    """
    read, write = os.pipe()
    last = os.urandom(16)
    try:
        yield write, readers.submit(_until, last, read)
    finally:
        os.write(write, last)
        os.close(write)


def _until(last: bytes, handle: int) -> bytes:
    data = bytearray()
    while not data.endswith(last):
        data += os.read(handle, 1 << 20)
    os.close(handle)
    return bytes(data.removesuffix(last))


class _Ended(BaseException):
    """rai would end its process now."""

    def __init__(self, status: int) -> None:
        self.status = status


@contextmanager
def _as_program(
    argv: list[str], folder: str, environment: dict[str, str], ends: list[int]
) -> Iterator[None]:
    """Let this process be a program for a while; its streams are ``ends``."""
    with ExitStack() as after, warnings.catch_warnings():
        # As Python has them for a program, where pytest makes them errors.
        warnings.resetwarnings()
        for kind in (DeprecationWarning, PendingDeprecationWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)
        for number, end in enumerate(ends):
            kept = os.dup(number)
            after.callback(os.close, kept)
            after.callback(os.dup2, kept, number)
            os.dup2(end, number)
        for module, name, value in (
            *((sys, name, _stream(n, "")) for n, name in enumerate(STREAMS)),
            (sys, "argv", argv),
            (os, "_exit", functools.partial(_end, os.getpid(), os._exit)),
            (tempfile, "tempdir", None),
        ):
            after.callback(setattr, module, name, getattr(module, name))
            setattr(module, name, value)
        after.callback(gc.set_threshold, *gc.get_threshold())
        after.callback(os.chdir, Path.cwd())
        after.callback(_replace_environment, dict(os.environ))
        os.chdir(folder)
        _replace_environment(environment)
        if [environment.get(name) for name in FOUND_BY] != USUAL:
            _forget()
            after.callback(_forget)
        yield


def _replace_environment(environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


def _end(process: int, end: Callable[[int], NoReturn], status: int) -> NoReturn:
    """End a fork of this process, but of this one only rai."""
    if os.getpid() != process:
        end(status)
    raise _Ended(status)


def _forget() -> None:
    """Forget what rai has found on this machine by variables."""
    from runner.engines import network
    from runner.engines.gpu import watch
    from runner.engines.local import layout, sandbox

    for found in (layout.host, network.missing, sandbox.find, sandbox.version):
        found.cache_clear()
    watch.this_machine.cache_clear()


# A process of its own.


@cache
def _server() -> socket.socket:
    """Start the server of this process."""
    ours, theirs = socket.socketpair()
    with theirs:
        code = f"from tests.kit.program import serve; serve({theirs.fileno()})"
        server = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )

    def end() -> None:
        ours.close()
        server.wait()

    atexit.register(end)
    return ours


def serve(handle: int) -> None:
    """Fork a program for each message, until the other end is closed."""
    import pkgutil
    from importlib import import_module

    for name in LOADED:
        package = import_module(f"runner.{name}")
        for found in pkgutil.walk_packages(package.__path__, f"runner.{name}."):
            import_module(found.name)
    sys.path.remove("")
    gc.freeze()
    with socket.socket(fileno=handle) as orders:
        while True:
            message, ends, *_ = socket.recv_fds(orders, 1, 4)
            if not message:
                return
            if os.fork() == 0:
                orders.detach()
                os.close(handle)
                _follow(ends)
            for end in ends:
                os.close(end)
            _reap()


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _follow(ends: list[int]) -> None:
    """Fork the program of one order, and report its number and how it ended."""
    with socket.socket(fileno=ends.pop()) as told, told.makefile("rb") as channel:
        argv, folder, environment, streams, session = pickle.load(channel)
        pid = os.fork()
        if pid:
            for end in ends:
                os.close(end)
            told.send(pid.to_bytes(8))
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            with suppress(BrokenPipeError):  # nobody waits
                told.send(status.to_bytes(8, signed=True))
            os._exit(0)
    for number, end in enumerate(ends):
        os.dup2(end, number)
    os.closerange(3, 1024)
    if session:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(folder)
    _replace_environment(environment)
    sys.argv = argv
    for number, name in enumerate(STREAMS):
        setattr(sys, name, _stream(number, streams.get(number, "")))
    from runner.cli.main import main

    main()


def _stream(number: int, path: str | None) -> TextIO | None:
    """Return a standard stream as Python makes it, of a file if one is named."""
    if path is None:
        os.close(number)
        return None
    mode = "w" if number else "r"
    if path:
        file = os.open(path, os.O_RDWR)
        os.dup2(file, number)
        os.close(file)
    lines, errors = (1, "backslashreplace") if number == 2 else (-1, "strict")
    return os.fdopen(number, mode, lines, "utf-8", errors, closefd=False)
