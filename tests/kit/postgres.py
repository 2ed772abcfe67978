"""A PostgreSQL of the tests' own, at a Unix socket, without any user's settings."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

DEBIAN = Path("/usr/lib/postgresql")
USERS = ("postgres", "nobody")
PATIENCE_S = 60.0
SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "autovacuum_naptime": "5min",
}


@cache
def programs() -> Path | None:
    """Return the folder of PostgreSQL's programs: on the PATH, or Debian's newest."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    there = sorted(DEBIAN.glob("[0-9]*/bin/initdb"), key=lambda p: int(p.parts[-3]))
    return there[-1].parent if there else None


def absent() -> str | None:
    """Return why no PostgreSQL can be started here."""
    if find_spec("psycopg") is None:
        return "the extra `postgresql` is not installed"
    if programs() is None:
        return "apt install postgresql"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "no setpriv, which starts it as another user than root"
    return None


class Postgres:
    """A server in ``folder``, which may be killed; ``url`` is its database's."""

    def __init__(self, folder: Path, fsync: bool = False) -> None:
        self.url = f"postgresql://rai@/postgres?host={folder}"
        self._folder, self._as_ordinary = folder, _as_ordinary(folder)
        self._settings = SETTINGS | {"fsync": "on" if fsync else "off"}
        self._process: subprocess.Popen[bytes] | None = None
        words = ["-U", "rai", "-A", "trust", "--no-sync", "-E", "UTF8"]
        self._run("initdb", *words, "--locale", "C.UTF-8").wait()

    def start(self) -> None:
        """Start it and wait until it answers."""
        until = time.monotonic() + PATIENCE_S
        words = ["-k", str(self._folder)]
        for name, value in self._settings.items():
            words += ["-c", f"{name}={value}"]
        self._process = self._run("postgres", *words)
        while not self._answers():
            log = (self._folder / "log").read_text()
            assert time.monotonic() < until, log
            if self._process.poll() is not None:
                # What a killed one started still ends, and holds its memory.
                self._process = self._run("postgres", *words)
            time.sleep(0.05)

    def kill(self) -> None:
        """End its first process at once, at which the others end by themselves."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End all connections and the server."""
        self._end(signal.SIGINT)

    def _end(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(PATIENCE_S)

    def _run(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        where = programs()
        assert where is not None
        command = [*self._as_ordinary, where / name, "-D", self._folder / "data"]
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                [*command, *words], stdout=log, stderr=log, cwd=self._folder
            )

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url).close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def server(fsync: bool = False) -> Iterator[Postgres]:
    """Start a server, and stop it.

    Without ``fsync`` it is faster, and the machine must not fail.
    """
    # Short, as the path of a socket is.
    folder = Path(tempfile.mkdtemp(prefix="rai-pg-", dir="/tmp"))
    try:
        found = Postgres(folder, fsync)
        found.start()
        try:
            yield found
        finally:
            found.stop()
    finally:
        shutil.rmtree(folder)


@contextmanager
def cluster(fsync: bool = False) -> Iterator[str]:
    """Start a server; yield the URL of its database ``postgres``, and stop it."""
    with server(fsync) as found:
        yield found.url


@contextmanager
def database(at: str, options: str = "") -> Iterator[str]:
    """Make an empty database; yield its URL, and remove it."""
    import psycopg

    name = f"test_{uuid4().hex}"
    with psycopg.connect(at, autocommit=True) as link:
        link.execute(f'CREATE DATABASE "{name}" {options}'.encode())
        try:
            yield at.replace("/postgres?", f"/{name}?")
        finally:
            link.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


def _as_ordinary(folder: Path) -> list[str]:
    """Return the words before a command that make it an ordinary user's."""
    if os.geteuid():
        return []
    names = {entry.pw_name for entry in pwd.getpwall()}
    user = pwd.getpwnam(next(name for name in USERS if name in names))
    os.chown(folder, user.pw_uid, user.pw_gid)
    ids = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return ["setpriv", *ids, "--pdeathsig=INT"]
