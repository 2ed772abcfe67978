"""Where a server listens: addresses as they are given, and sockets bound to them."""

from __future__ import annotations

import errno
import os
import platform
import socket
import stat
import struct
from contextlib import ExitStack, suppress
from pathlib import Path

from msgspec import Struct

from runner.core import Problem
from runner.core.errors import BusyError, UsageError
from runner.wire.addresses import is_loopback

BACKLOG = 2048
ANY = ("0.0.0.0", "::")
ANSWER_S = 2.0
_CREDENTIALS = struct.Struct("3i")


class ListenAt(Struct, frozen=True):
    """A host and a port, as `--listen` names them; "" is every address."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether only programs of this machine reach it."""
        return is_loopback(self.host)

    def __str__(self) -> str:
        host = self.host or ANY[0]
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


def parse(text: str) -> ListenAt:
    """Parse `HOST:PORT`, `[ADDRESS]:PORT` or `:PORT`; raise UsageError otherwise."""
    host, colon, port = text.strip().rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    within = port.isascii() and port.isdecimal() and int(port) <= 65535
    if not colon or not within or (":" in host and not bracketed):
        hint = "write a host and a port, as 0.0.0.0:8443 or [::]:8443"
        raise UsageError(Problem(f"--listen {text}: it is no address", hint=hint))
    return ListenAt("" if host in ("*", ANY[0]) else host, int(port))


class PeerProcess(Struct, frozen=True):
    """The process at the other end of a Unix socket, with its user and group."""

    pid: int
    uid: int
    gid: int


def peer(link: socket.socket) -> PeerProcess:
    """Return who is at the other end, as the kernel knows (unix(7), SO_PEERCRED)."""
    found = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return PeerProcess(*_CREDENTIALS.unpack(found))


def names(at: ListenAt, public_host: str = "") -> list[str]:
    """Return the names and addresses by which clients may know this machine.

    These are for a certificate, which holds ASCII.
    """
    found = [public_host, at.host if at.host not in ANY else "", "localhost"]
    found += [platform.node(), socket.getfqdn(), *_addresses(), "127.0.0.1", "::1"]
    fit = [name for name in found if name.isascii() and 0 < len(name) < 254]
    return list(dict.fromkeys(fit))


def public_host(at: ListenAt) -> str:
    """Return the name that others most likely reach this machine by."""
    if at.host not in ("", *ANY):
        return at.host
    full = socket.getfqdn()
    if full and not is_loopback(full) and not full.startswith("localhost"):
        return full
    return next(iter(_addresses()), platform.node())


def tcp(at: ListenAt) -> socket.socket:
    """Listen at a host and port.

    Raises:
        UsageError: the host is not this machine's, or this user may not.
        BusyError: another program listens there.
    """
    try:
        family = socket.AF_INET6 if ":" in at.host else socket.AF_INET
        host = at.host or ANY[0]
        found = socket.getaddrinfo(host, at.port, family, socket.SOCK_STREAM)
        return socket.create_server(found[0][4], family=family, backlog=BACKLOG)
    except OSError as error:
        text = f"cannot listen at {at}: {error.strerror or error}"
        if error.errno == errno.EADDRINUSE:
            problem = Problem(text, hint="name another port")
            raise BusyError(problem, advice="") from error
        low = "ports below 1024 are root's: name another, such as 8443"
        hint = low if error.errno == errno.EACCES else ""
        raise UsageError(Problem(text, hint=hint)) from error


def unix(path: Path, mode: int) -> socket.socket:
    """Listen at a Unix socket; one that nobody listens at is replaced.

    Raises:
        BusyError: another program listens there.
        UsageError: it cannot be made.
    """
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        try:
            taken = server_at(path) is not None
        except BlockingIOError:  # its backlog is full
            taken = True
        if taken:
            text = f"another server listens at {path}"
            hint = "stop it first, or name another socket by --socket"
            raise BusyError(Problem(text, hint=hint), advice="")
        if path.exists() and stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
        with ExitStack() as failed:
            made = failed.enter_context(socket.socket(socket.AF_UNIX))
            made.bind(os.fspath(path))
            path.chmod(mode)
            made.listen(BACKLOG)
            failed.pop_all()
        return made
    except OSError as error:
        text = f"cannot listen at {path}: {error.strerror or error}"
        hint = "name another by --socket"
        raise UsageError(Problem(text, hint=hint)) from error


def server_at(path: Path) -> PeerProcess | None:
    """Return which process listens at a Unix socket; None if none does.

    Raises:
        OSError: that cannot be told: it is another user's, or its backlog is full.
    """
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(ANSWER_S)
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return None
        return peer(probe)


def _addresses() -> list[str]:
    """Return this machine's addresses that lead out."""
    found = []
    for family, far in (
        (socket.AF_INET, "192.0.2.1"),
        (socket.AF_INET6, "2001:db8::1"),
    ):
        with socket.socket(family, socket.SOCK_DGRAM) as probe, suppress(OSError):
            probe.connect((far, 9))  # nothing is sent
            found.append(probe.getsockname()[0])
    return [name for name in found if not is_loopback(name)]
