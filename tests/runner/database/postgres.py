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


@contextmanager
def cluster(fsync: bool = False) -> Iterator[str]:
    """Start a server; yield the URL of its database ``postgres``, and stop it.

    Without ``fsync`` it is faster, and the machine must not fail.
    """
    where = programs()
    assert where is not None
    # Short, as the path of a socket is.
    folder = Path(tempfile.mkdtemp(prefix="rai-pg-", dir="/tmp"))
    try:
        prefix = _as_ordinary(folder)
        data, log = folder / "data", folder / "log"
        make = [where / "initdb", "-D", data, "-U", "rai", "-A", "trust", "--no-sync"]
        words = ["-E", "UTF8", "--locale", "C.UTF-8"]
        subprocess.run(
            [*prefix, *make, *words], check=True, stdout=subprocess.DEVNULL, cwd=folder
        )
        command = [*prefix, where / "postgres", "-D", data, "-k", folder]
        settings = SETTINGS | {"fsync": "on" if fsync else "off"}
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with log.open("wb") as said:
            server = subprocess.Popen(command, stdout=said, stderr=said, cwd=folder)
        try:
            url = f"postgresql://rai@/postgres?host={folder}"
            _await(url, server, log)
            yield url
        finally:
            server.send_signal(signal.SIGINT)  # ends all connections
            server.wait(PATIENCE_S)
    finally:
        shutil.rmtree(folder)


@contextmanager
def database(server: str, options: str = "") -> Iterator[str]:
    """Make an empty database; yield its URL, and remove it."""
    import psycopg

    name = f"test_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as link:
        link.execute(f'CREATE DATABASE "{name}" {options}'.encode())
        try:
            yield server.replace("/postgres?", f"/{name}?")
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


def _await(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    import psycopg

    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.05)
        else:
            return
