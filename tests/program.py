"""Start rai as a program, in a tenth of the time that loading it takes.

Each process of the tests has a server that has loaded rai and waits. It forks for each
call, so that rai has an own process, with a folder, variables and streams of its own.
What is about the start itself, as closed streams, another user or a terminal, starts
the program as a user does.
"""

from __future__ import annotations

import atexit
import os
import pickle
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import IO, Any, TextIO

RAI = str(Path(sys.executable).with_name("rai"))
ROOT = Path(__file__).parent.parent
MOST_S = 600.0
Streams = Mapping[int, str | None]
PIPES: Streams = {}


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
    streams: Streams = PIPES,
    timeout_s: float = MOST_S,
) -> subprocess.CompletedProcess[bytes]:
    """Run rai to its end; ``input`` is its stdin.

    ``streams`` names files for its streams, by their numbers; None closes one.
    """
    argv = [RAI, *map(str, words)]
    environment = dict(os.environ if env is None else env)
    here = Path.cwd()
    # This project is not what `latest` is of.
    order = (argv, str(cwd or (gettempdir() if here == ROOT else here)))
    order = (*order, environment, dict(streams))
    with ExitStack() as opened:
        ours, theirs = socket.socketpair()
        opened.enter_context(ours)
        pipes = [os.pipe(), os.pipe()]
        with theirs, TemporaryFile() as stdin:
            stdin.write(input.encode())
            stdin.seek(0)
            ends = [stdin.fileno(), *(end for _, end in pipes), theirs.fileno()]
            socket.send_fds(_server(), [b"."], ends)
        for _, end in pipes:
            os.close(end)
        readers = [opened.enter_context(os.fdopen(end, "rb", 0)) for end, _ in pipes]
        with ours.makefile("rwb") as channel:
            pickle.dump(order, channel)
            channel.flush()
            pid = int(channel.readline())
            try:
                out, error = _read(readers, time.monotonic() + timeout_s)
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(argv, timeout_s) from None
            status = int(channel.readline())
    return subprocess.CompletedProcess(argv, status, out, error)


def _text(data: bytes) -> str:
    return data.decode(errors="replace").replace("\r\n", "\n")


def _read(streams: list[IO[bytes]], until_s: float) -> list[bytes]:
    found = {stream: bytearray() for stream in streams}
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            if not (ready := selector.select(until_s - time.monotonic())):
                raise TimeoutError
            for key, _ in ready:
                if data := os.read(key.fd, 1 << 20):
                    found[key.fileobj] += data
                else:
                    selector.unregister(key.fileobj)
    return [bytes(data) for data in found.values()]


@cache
def _server() -> socket.socket:
    """Start the server of this process."""
    ours, theirs = socket.socketpair()
    with theirs:
        code = f"from tests.program import serve; serve({theirs.fileno()})"
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


# In the server.


def serve(handle: int) -> None:
    """Fork a program for each message, until the other end is closed."""
    import gc
    import pkgutil
    from importlib import import_module

    import runner.cli

    for found in pkgutil.walk_packages(runner.cli.__path__, "runner.cli."):
        import_module(found.name)
    for name in (
        "run.validation",
        "engines.doctor",
        "terminal.layout",
        "engines.docker",
    ):
        import_module(f"runner.{name}")
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
    with socket.socket(fileno=ends.pop()) as other, other.makefile("rwb") as channel:
        argv, folder, environment, streams = pickle.load(channel)
        pid = os.fork()
        if pid:
            for end in ends:
                os.close(end)
            channel.write(f"{pid}\n".encode())
            channel.flush()
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            channel.write(f"{status}\n".encode())
            channel.flush()
            os._exit(0)
    for number, end in enumerate(ends):
        os.dup2(end, number)
    os.closerange(3, 1024)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = argv
    for number, name in enumerate(("stdin", "stdout", "stderr")):
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
