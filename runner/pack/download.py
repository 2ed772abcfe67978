"""Download files: check them, limit them, and give up in time."""

from __future__ import annotations

import hashlib
import http.client
import os
import socket
import ssl
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urljoin

from msgspec import Struct

from runner.core import MIB, DataResource, Problem
from runner.core.errors import NotAllowedError
from runner.core.events import Progress
from runner.core.policy import Policy
from runner.pack import data_rules
from runner.pack.data_rules import Room, UnavailableError, WebAddress, web_address
from runner.system import machine
from runner.system.background import BackgroundReader

START_S = 30.0
"""The most from the first question for a name until the content begins."""

TOTAL_S = 1800.0
"""The most that all downloads of a run may take."""

MOST_REDIRECTS = 10
POLL_S = 0.1
ROOM_STEP = 64 * MIB
"""The room that is made at a time for a file whose size is not known."""

LEAST_BYTES = 10_240
"""What a server sends at least within ``silence_s``."""

_CHUNK = MIB // 4
_REDIRECTS = (301, 302, 303, 307, 308)

SILENCE_S = 10.0
"""How long a server may take to connect, and between two packets."""


class Times(Struct, frozen=True):
    """How long downloads may take, in seconds."""

    start_s: float = START_S
    silence_s: float = SILENCE_S
    total_s: float = TOTAL_S


class _Piece(Struct, frozen=True):
    """Some bytes of a file, and how many it has in all, if the server says so."""

    data: bytes
    total: int | None


class Downloads:
    """The downloads of one run; a server that could not be reached is not retried."""

    def __init__(self, policy: Policy, room: Room, times: Times) -> None:
        self._policy, self._room, self._times = policy, room, times
        self._down: dict[str, UnavailableError] = {}
        self._until = time.monotonic() + times.total_s

    def fetch(
        self, resource: DataResource, into: Path
    ) -> Generator[Progress, None, None]:
        """Download a file to ``into``; raise UnavailableError if that fails.

        Raises:
            NotAllowedError: the site's policy lists other hosts only.
        """
        address = web_address(resource.url)
        if problem := _not_listed(address, self._policy):
            raise NotAllowedError(Problem(problem, resource.place))
        if address.host in self._down:
            raise self._down[address.host]
        try:
            yield from self._once(address, into, resource.md5)
        except UnavailableError as error:
            if error.unreachable:
                self._down[address.host] = error
            if not error.retry:
                raise
            yield from self._once(address, into, resource.md5)

    def _once(
        self, address: WebAddress, into: Path, md5: str | None
    ) -> Generator[Progress, None, None]:
        try:
            into.parent.mkdir(parents=True, exist_ok=True)
            # What processes left that were killed.
            for left in into.parent.parent.glob("*/.new-*.part"):
                if machine.has_ended(left.name.removesuffix(".part")):
                    left.unlink(missing_ok=True)
            # A new file, since another process may download the same.
            prefix = f".new-{machine.this_process().tag}-"
            handle, name = tempfile.mkstemp(".part", prefix, into.parent)
            os.close(handle)
        except OSError as error:
            text = f"{into.parent} cannot be written to: {error}"
            raise UnavailableError(text) from error
        part = Path(name)
        connections = Connections(self._policy)
        source = partial(_pieces, connections, address, self._policy, md5)
        reader = BackgroundReader(source, connections.hang_up)
        host = address.host
        try:
            with part.open("wb") as out:
                task = f"download {into.name}"
                got = yield from self._copied(reader, out, task, host)
            if md5 and got != md5.lower():
                raise UnavailableError(
                    f"the file that {host} sent does not have the md5 {md5}", retry=True
                )
            part.replace(into)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _failed(error, host) from error
        finally:
            reader.close()
            connections.hang_up()
            part.unlink(missing_ok=True)

    def _copied(
        self, reader: BackgroundReader[_Piece], out: BinaryIO, task: str, host: str
    ) -> Generator[Progress, None, str]:
        """Copy what is read to a file; return its md5.

        Time is taken here, whatever the server sends: it may trickle.
        """
        md5 = hashlib.md5(usedforsecurity=False)
        total: int | None = None
        done = counted = room = 0
        answered, times, since = False, self._times, time.monotonic()
        while True:
            piece = reader.take(POLL_S)
            if reader.done:
                break
            now = time.monotonic()
            if now > self._until:
                most = f"{times.total_s:g} s"
                raise UnavailableError(f"the run's downloads take longer than {most}")
            if piece is not None and not answered:
                answered, since, total = True, now, piece.total
                self._room.need(total or 0)
                self._room.make(total or ROOM_STEP)
                room = total or ROOM_STEP
            if piece is not None:
                done += len(piece.data)
                self._room.need(done)
                if done > room:
                    self._room.make(ROOM_STEP)
                    room += ROOM_STEP
                md5.update(piece.data)
                out.write(piece.data)
            if done - counted >= LEAST_BYTES:
                counted, since = done, now
            if now - since > (times.silence_s if answered else times.start_s):
                slow = f"{host} does not answer within {times.start_s:g} s"
                if answered:
                    rate = f"{LEAST_BYTES:,} bytes in {times.silence_s:g} s"
                    slow = f"{host} sends under {rate}"
                raise UnavailableError(slow, unreachable=True)
            yield Progress(task, done, total)  # and a chance to cancel
        if total is not None and done != total:
            raise UnavailableError(f"{host} closed the connection early", retry=True)
        yield Progress(task, done, total)
        return md5.hexdigest()


def _pieces(
    connections: Connections, address: WebAddress, policy: Policy, md5: str | None
) -> Iterator[_Piece]:
    """Yield the content of a file, first an empty piece with its size."""
    response = _answer(connections, address, policy, md5)
    with response:
        total = response.length
        yield _Piece(b"", total)
        # With a slow server read() would return only when all of it is there.
        while data := response.read1(_CHUNK):
            yield _Piece(data, total)


def _answer(
    connections: Connections, address: WebAddress, policy: Policy, md5: str | None
) -> http.client.HTTPResponse:
    """Follow redirects to an answer with content; each one is checked like the first.

    One that leaves TLS is followed only where the checksum vouches for the content.
    """
    for _ in range(MOST_REDIRECTS + 1):
        response = connections.get(address)
        if response.status == HTTPStatus.OK:
            return response
        location = response.headers.get("Location")
        response.close()  # unread: it may have no end
        if response.status not in _REDIRECTS or not location:
            raise _refused(address.host, response.status)
        after = web_address(urljoin(address.url, location.strip()))
        if problem := _not_listed(after, policy):
            raise UnavailableError(f"{address.host} redirects, but {problem}")
        if address.secure and not after.secure and not md5:
            raise UnavailableError(
                f"{address.host} redirects from https to http, and no md5 is given"
            )
        address = after
    raise UnavailableError(f"{address.host} redirects without end")


def _not_listed(address: WebAddress, policy: Policy) -> str:
    allowed = policy.data_hosts
    if allowed is None or allowed.has_host(address.host):
        return ""
    return f"data files from {address.host} are not allowed by {allowed.place}"


def _refused(host: str, status: int) -> UnavailableError:
    words = str(status)
    with suppress(ValueError):  # the server's own words may be anything
        words = f"{status} {HTTPStatus(status).phrase}"
    again = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return UnavailableError(f"{host} answers {words}", retry=again)


def _failed(error: Exception, host: str) -> UnavailableError:
    """Return the short error for an exception of the network."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, socket.gaierror):
        text = f"the name {host} cannot be resolved: {cause.strerror}"
    elif isinstance(cause, TimeoutError):
        text = f"{host} is silent for {SILENCE_S:g} s"
    elif isinstance(cause, ssl.SSLError):
        text = f"{host} is not trusted: {cause.reason}"
    elif isinstance(cause, ConnectionRefusedError):
        text = f"{host} refuses the connection"
    else:
        broke = isinstance(cause, (ConnectionError, http.client.HTTPException))
        said = "".join(c if c.isprintable() else "?" for c in str(cause)[:200])
        text = f"the download from {host} failed: {said}"
        return UnavailableError(text, retry=broke)
    return UnavailableError(text, unreachable=True)


class Connections:
    """The connections of one download; the environment's proxies are used.

    A name is resolved once, and the address that was checked is the one connected to.
    A proxy is the user's own choice, so its address is not checked; it resolves the
    names itself.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._lock = threading.Lock()
        self._over = False
        self._open: list[socket.socket] = []
        self._opener = urllib.request.OpenerDirector()
        # Nothing else: no other kinds of addresses, no redirects, no passwords.
        self._opener.add_handler(urllib.request.ProxyHandler())
        self._opener.add_handler(_Http(self))
        self._opener.add_handler(_Https(self))

    def get(self, address: WebAddress) -> http.client.HTTPResponse:
        """Ask for a file; return the answer, whatever it is."""
        request = _Request(address.url, headers={"User-Agent": "rai"})
        request.target = address.host
        response: http.client.HTTPResponse = self._opener.open(
            request, timeout=SILENCE_S
        )
        return response

    def hang_up(self) -> None:
        """End all reads and writes; may be called from another thread."""
        with self._lock:
            self._over = True
            for handle in self._open:
                with suppress(OSError):
                    handle.shutdown(socket.SHUT_RDWR)
                handle.close()
            self._open.clear()

    def connect(
        self, request: _Request, place: tuple[str, int], timeout_s: float
    ) -> socket.socket:
        """Return a connection to the first checked address that answers."""
        host, port = place
        # All that is known of what a proxy resolves.
        data_rules.check(
            request.target, data_rules.literal(request.target), self._policy
        )
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        if not request.proxied:
            every = [data_rules.of(each[4]) for each in found]
            data_rules.check(request.target, every, self._policy)
        failure: OSError = OSError(f"{host} has no address")
        for family, kind, protocol, _, address in found:
            made = socket.socket(family, kind, protocol)
            made.settimeout(timeout_s)
            try:
                with self._lock:
                    if self._over:
                        made.close()
                        raise UnavailableError("the download was stopped")
                    # A second handle: TLS takes the first one away.
                    self._open.append(socket.socket(fileno=os.dup(made.fileno())))
                made.connect(address)
            except OSError as error:
                failure = error
                made.close()
                continue
            return made
        raise failure


class _Request(urllib.request.Request):
    """A request that knows whether a proxy answers it, and for which host."""

    proxied = False
    target = ""

    def set_proxy(self, host: str, type: str) -> None:
        """Send the request to a proxy."""
        super().set_proxy(host, type)
        self.proxied = True


class _Checking(urllib.request.AbstractHTTPHandler):
    def __init__(self, connections: Connections) -> None:
        super().__init__()
        self._connections = connections

    def do_open(self, http_class: Any, req: Any, **options: Any) -> Any:  # noqa: ANN401
        """Return the answer by a connection to a checked address."""

        def made(host: str, **more: Any) -> Any:  # noqa: ANN401
            connection = http_class(host, **more)
            # What the class calls to connect; TLS still checks the name of the host.
            connection._create_connection = lambda place, timeout, _: (
                self._connections.connect(req, place, timeout)
            )
            return connection

        return super().do_open(made, req, **options)


class _Http(_Checking, urllib.request.HTTPHandler):
    """http, and what a proxy fetches by it."""


class _Https(_Checking, urllib.request.HTTPSHandler):
    """https, through the tunnel of a proxy too."""
