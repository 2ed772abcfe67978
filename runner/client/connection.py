"""HTTP to one server: over TLS with trusted certificates or a pinned one, or Unix.

The server is not trusted. What it may send and how long it may take is bounded, no
redirect is followed, nothing is unpacked, and no connection is tried twice: whoever
calls decides that.
"""

from __future__ import annotations

import http.client
import io
import os
import select
import socket
import ssl
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any
from urllib.parse import SplitResult, unquote, urlencode, urlsplit
from urllib.request import getproxies

import certifi
from msgspec import Struct

from runner import __version__
from runner.client import bounds
from runner.client.problems import (
    NoServerError,
    UnreachableError,
    UntrustedServerError,
    shown,
)
from runner.core import Problem, addresses
from runner.core.errors import ConfigError, RaiError

PIECE_BYTES = 64 << 10


class HttpRequest(Struct, frozen=True):
    """A request; the server may take ``wait_s`` longer to answer than usual."""

    method: str
    path: str
    body: bytes | io.FileIO | None = None
    query: dict[str, str] = {}
    headers: dict[str, str] = {}
    wait_s: float = 0.0


class ServerConnection:
    """Connections to one server, which are kept open from one request to the next."""

    def __init__(self, url: str, token: str = "", fingerprint: str = "") -> None:
        self.url, self._pin = url, fingerprint
        self._path = "" if addresses.socket_path(url) else urlsplit(url).path
        self._headers = {"User-Agent": f"rai/{__version__}"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._proxy = _proxy(url)
        self._through = " through the proxy" if self._proxy else ""
        self._idle: list[http.client.HTTPConnection] = []
        self._busy: set[socket.socket] = set()
        self._closed = False

    def close(self) -> None:
        """Close the connections; a request of another thread's ends at once."""
        self._closed = True
        for sock in tuple(self._busy):
            with suppress(OSError):
                # That of an SSLSocket would drop TLS first.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
        idle, self._idle = self._idle, []
        for link in idle:
            link.close()

    @contextmanager
    def send(self, request: HttpRequest) -> Iterator[HttpAnswer]:
        """Send a request and yield the answer, whatever its status is."""
        body, headers = request.body, {**self._headers, **request.headers}
        if isinstance(body, io.FileIO):
            headers["Content-Length"] = str(os.fstat(body.fileno()).st_size)
        query = f"?{urlencode(request.query)}" if request.query else ""
        target = f"{self._path}{request.path}{query}"
        with failing(self.url, self._through):
            link = self._link()
        found = None
        self._busy.add(sock := link.sock)
        try:
            with failing(self.url):
                if self._closed:
                    raise ConnectionAbortedError("it was closed")
                sock.settimeout(bounds.READ_S)
                # A server may refuse what it has not read, and close the connection.
                with suppress(BrokenPipeError, ConnectionResetError):
                    link.request(request.method, target, body, headers)
                sock.settimeout(bounds.READ_S + request.wait_s)
                found = HttpAnswer(link.getresponse(), self.url)
            found.check()
            yield found
        finally:
            self._busy.discard(sock)
            reusable = found is not None and found.end()
            if reusable and not self._closed:
                self._idle.append(link)
            else:
                link.close()

    def _link(self) -> http.client.HTTPConnection:
        """Return a connection that is free, or a new one."""
        with suppress(IndexError):  # another thread may take the last one
            while True:
                link = self._idle.pop()
                ended = select.poll()
                ended.register(link.sock, select.POLLIN)
                if not ended.poll(0):
                    return link
                link.close()
        link = self._made()
        link.response_class = _TimedAnswer
        try:
            if path := addresses.socket_path(self.url):
                link.sock.connect(path)
            else:
                link.connect()
            if self._pin and isinstance(link.sock, ssl.SSLSocket):
                certificate = link.sock.getpeercert(binary_form=True) or b""
                if addresses.fingerprint_of(certificate) != self._pin:
                    raise _not_pinned(self.url)
        except BaseException:
            link.close()
            raise
        return link

    def _made(self) -> http.client.HTTPConnection:
        """Return a connection to be made, by TLS through the proxy if there is one."""
        if self.url.startswith("unix:"):
            link = http.client.HTTPConnection("localhost")
            link.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            link.sock.settimeout(bounds.CONNECT_S)
            return link
        at, proxy = addresses.host_and_port(self.url), self._proxy
        given: dict[str, Any] = {"timeout": bounds.CONNECT_S, "blocksize": PIECE_BYTES}
        if self.url.startswith("http:"):
            return http.client.HTTPConnection(*at, **given)
        by = (proxy.hostname or "", proxy.port or 80) if proxy else at
        link = http.client.HTTPSConnection(*by, context=self._tls, **given)
        if proxy is None:
            return link
        user = f"{unquote(proxy.username or '')}:{unquote(proxy.password or '')}"
        allowed = {"Proxy-Authorization": f"Basic {b64encode(user.encode()).decode()}"}
        link.set_tunnel(*at, allowed if proxy.username else None)
        return link

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        if self._pin:  # it alone decides, so that a self-signed certificate will do
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        else:
            context = ssl.create_default_context()
            context.load_verify_locations(certifi.where())
        return context


def _proxy(url: str) -> SplitResult | None:
    """Return the proxy that the environment names for an address of another machine.

    Raise ConfigError for one that is not spoken to by plain HTTP.
    """
    if not url.startswith("https:") or not getproxies():
        return None
    if addresses.is_loopback(addresses.host_and_port(url)[0]):
        return None
    from requests.utils import get_environ_proxies, select_proxy  # it loads slowly

    found = select_proxy(url, get_environ_proxies(url, no_proxy=None))
    if not found:
        return None
    try:
        proxy = urlsplit(found if "://" in found else f"http://{found}")
        known = proxy.scheme == "http" and proxy.port != 0
    except ValueError:
        known = False
    if not known:
        hint = "expected https_proxy=http://host:port; no_proxy names hosts without one"
        text = f"the environment's proxy for {url} is not an address of http://"
        raise ConfigError(Problem(text, hint=hint))
    return proxy


def served_fingerprint(url: str) -> str:
    """Return the fingerprint of the certificate that a server shows, whoever it is."""
    at = addresses.host_and_port(url)
    with failing(url):
        pem = ssl.get_server_certificate(at, timeout=bounds.CONNECT_S)
        return addresses.fingerprint_of(ssl.PEM_cert_to_DER_cert(pem))


@contextmanager
def failing(url: str, through: str = "") -> Iterator[None]:
    """Raise an error of rai in place of those of HTTP, TLS and sockets."""
    try:
        yield
    except (http.client.HTTPException, OSError, ValueError) as error:
        raise _explained(error, url, through) from error


class _Timed(io.RawIOBase):
    """What a server sends at a connection, up to a moment."""

    def __init__(self, raw: io.RawIOBase, link: socket.socket) -> None:
        self._raw, self._link = raw, link
        self.allow(link.gettimeout() or 0.0)

    def allow(self, seconds: float) -> None:
        """Let the server have so many seconds from now on."""
        self._by = time.monotonic() + seconds

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any, /) -> int | None:  # noqa: ANN401 - as RawIOBase has it
        """Read what has come into a buffer; raise TimeoutError after the moment."""
        left = self._by - time.monotonic()
        if left <= 0:
            raise TimeoutError("the server is too slow")
        self._link.settimeout(left)
        found: int | None = self._raw.readinto(buffer)
        return found

    def close(self) -> None:
        """Close it."""
        self._raw.close()
        super().close()


class _TimedAnswer(http.client.HTTPResponse):
    """An answer that has READ_S up to the end of its headers, whatever comes before.

    http.client waits for each read anew, and reads any number of "100 Continue".
    """

    def __init__(self, link: socket.socket, *given: Any, **options: Any) -> None:  # noqa: ANN401
        super().__init__(link, *given, **options)
        self.timed = _Timed(self.fp.detach(), link)
        self.fp = io.BufferedReader(self.timed)

    def begin(self) -> None:
        """Read the headers, and give the body its time."""
        super().begin()
        self.timed.allow(bounds.SLOW_S)


class HttpAnswer(io.RawIOBase):
    """An answer: its status, its headers, and its ``body``, which is read as it comes.

    A break raises UnreachableError from a read.
    """

    def __init__(self, answer: http.client.HTTPResponse, url: str) -> None:
        assert isinstance(answer, _TimedAnswer)
        self.status, self.headers = answer.status, answer.headers
        self.body: io.BufferedReader[Any] = io.BufferedReader(self, PIECE_BYTES)
        self._answer, self._url = answer, url
        self._brought, self._ended = 0, False

    def check(self) -> None:
        """Raise NoServerError for what no server of rai sends."""
        if 300 <= self.status < 400:
            to = shown(self.headers.get("Location", "elsewhere"))
            hint = "no redirect is followed; log in at the address of the server itself"
            raise NoServerError(Problem(f"{self._url} redirects to {to}", hint=hint))
        coding = self.headers.get("Content-Encoding", "identity").lower()
        if coding != "identity":
            text = f"{self._url} answers in the encoding {shown(coding)}, unasked"
            raise NoServerError(text)

    def end(self) -> bool:
        """Leave it; return whether another answer may follow at its connection."""
        over = self._ended or self._answer.length == 0
        self._answer.close()
        return over and not self._answer.will_close

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 - as RawIOBase has it
        """Read what has come into a buffer, and wait for it if nothing has."""
        with failing(self._url):
            piece = self._answer.read1(len(buffer))
            if not piece and self._answer.length:
                raise http.client.IncompleteRead(b"", self._answer.length)
        self._ended = not piece
        self._brought += len(piece)
        if self._brought >= bounds.LEAST_BYTES:
            self._brought = 0
            self._answer.timed.allow(bounds.SLOW_S)
        buffer[: len(piece)] = piece
        return len(piece)


def _explained(error: Exception, url: str, through: str) -> RaiError:
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = f"if it signs its own, pin its certificate: rai login {url}"
        text = f"this system does not trust the certificate of {url}"
        text = f"{text}: {shown(error.verify_message)}"
        return UntrustedServerError(Problem(text, hint=hint))
    if isinstance(error, TimeoutError):
        return UnreachableError(f"{url} does not answer in time")
    return UnreachableError(f"no connection to {url}{through}: {_why(error)}")


def _not_pinned(url: str) -> UntrustedServerError:
    hint = (
        "if whoever runs it says that it was replaced, and names the fingerprint:"
        f" rai login {url} --fingerprint SHA256:..."
    )
    text = f"the certificate of {url} is not the one that is pinned"
    return UntrustedServerError(Problem(text, hint=hint))


def _why(error: Exception) -> str:
    """Return the system's own words, if it is the system that failed."""
    if isinstance(error, http.client.IncompleteRead):
        return "its answer broke off"
    if isinstance(error, OSError) and error.strerror:
        # The numbers of the resolver and of TLS are their own.
        own = isinstance(error, socket.gaierror | ssl.SSLError) or not error.errno
        return shown(error.strerror) if own else os.strerror(error.errno or 0)
    return shown(str(error)) or type(error).__name__
