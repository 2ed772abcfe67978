"""HTTP to one server: over TLS with the system's certificates or a pinned one, or Unix.

The server is not trusted. What it may send and how long it may take is bounded, no
redirect is followed, nothing is unpacked, and no connection is tried twice: whoever
calls decides that.
"""

from __future__ import annotations

import http.client
import io
import os
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.cookiejar import DefaultCookiePolicy
from typing import Any, Protocol

import requests
from msgspec import Struct
from requests.adapters import HTTPAdapter
from requests.utils import get_environ_proxies
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError, NewConnectionError

from runner import __version__
from runner.core import Problem
from runner.core.errors import RaiError
from runner.remote import bounds
from runner.remote.problems import (
    NoServerError,
    UnreachableError,
    UntrustedServerError,
    shown,
)
from runner.wire import addresses

PIECE_BYTES = 64 << 10
Body = bytes | io.FileIO


class HttpAnswer(Struct, frozen=True):
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class BodyStream(Protocol):
    """The body of an answer that goes on."""

    def readline(self, most: int, /) -> bytes:
        """Return a line, at most so many bytes of it; b"" at the end."""

    def read1(self, size: int, /) -> bytes:
        """Return at most so many bytes, as soon as there are any; b"" at the end."""


class ServerConnection:
    """Connections to one server, which are kept open from one request to the next."""

    def __init__(self, url: str, token: str = "", fingerprint: str = "") -> None:
        self.url = url
        path = addresses.socket_path(url)
        self._base = "http+unix://localhost" if path else url
        self._session = requests.Session()
        # The environment could set another authorization (.netrc) or certificates.
        self._session.trust_env = False
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=()))
        self._session.headers.update(
            {"User-Agent": f"rai/{__version__}", "Accept-Encoding": "identity"}
        )
        if token:
            self._session.headers["Authorization"] = f"Bearer {token}"
        if path:
            self._session.mount("http+unix://", _UnixAdapter(path))
            return
        self._session.mount("https://", _Adapter(fingerprint))
        self._session.mount("http://", _Adapter(""))
        self._session.verify = not fingerprint
        if not addresses.is_loopback(addresses.host_and_port(url)[0]):
            self._session.proxies.update(get_environ_proxies(url, no_proxy=None))

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Body | None = None,
    ) -> HttpAnswer:
        """Send a request and return the whole answer, whatever its status is."""
        with self._opened(method, path, query, headers, body) as response:
            return self._whole(response)

    @contextmanager
    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        wait_s: float = 0.0,
    ) -> Iterator[tuple[HttpAnswer, BodyStream]]:
        """Yield an answer and its body, which is read as it comes.

        The body of an error is read at once, and is the answer's. The server may take
        ``wait_s`` longer to answer than usual.
        """
        with self._opened("GET", path, query, headers, None, wait_s) as response:
            if response.status_code >= 400:
                answer = self._whole(response)
            else:
                answer = HttpAnswer(response.status_code, response.headers, b"")
            body = _ResponseBody(response, self.url)
            yield answer, io.BufferedReader(body, PIECE_BYTES)

    @contextmanager
    def _opened(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        headers: Mapping[str, str] | None,
        body: Body | None,
        wait_s: float = 0.0,
    ) -> Iterator[requests.Response]:
        with failing(self.url):
            response = self._session.request(
                method,
                f"{self._base}{path}",
                params=query,
                headers=headers,
                data=body,
                stream=True,
                allow_redirects=False,
                timeout=(bounds.CONNECT_S, bounds.READ_S + wait_s),
            )
        try:
            self._check(response)
            yield response
        finally:
            response.close()

    def _check(self, response: requests.Response) -> None:
        status = response.status_code
        if 300 <= status < 400:
            to = shown(response.headers.get("Location", "elsewhere"))
            hint = "no redirect is followed; log in at the address of the server itself"
            raise NoServerError(Problem(f"{self.url} redirects to {to}", hint=hint))
        coding = response.headers.get("Content-Encoding", "identity").lower()
        if coding != "identity":
            text = f"{self.url} answers in the encoding {shown(coding)}, unasked"
            raise NoServerError(text)

    def _whole(self, response: requests.Response) -> HttpAnswer:
        body, source = bytearray(), _ResponseBody(response, self.url)
        while piece := source.piece(PIECE_BYTES):
            body += piece
            if len(body) > bounds.MOST_ANSWERED_BYTES:
                text = (
                    f"{self.url} answers with over {bounds.MOST_ANSWERED_BYTES:,} bytes"
                )
                raise NoServerError(text)
        return HttpAnswer(response.status_code, response.headers, bytes(body))


def served_fingerprint(url: str) -> str:
    """Return the fingerprint of the certificate that a server shows, whoever it is."""
    host, port = addresses.host_and_port(url)
    with failing(url):
        pem = ssl.get_server_certificate((host, port), timeout=bounds.CONNECT_S)
        return addresses.fingerprint_of(ssl.PEM_cert_to_DER_cert(pem))


@contextmanager
def failing(url: str) -> Iterator[None]:
    """Raise an error of rai in place of those of requests, urllib3 and sockets."""
    try:
        yield
    except (requests.RequestException, HTTPError, OSError, ValueError) as error:
        raise _explained(error, url) from error


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


class _Connection(HTTPConnection):
    response_class = _TimedAnswer

    def send(self, data: Any) -> None:  # noqa: ANN401 - as HTTPConnection has it
        """Send a piece of a request within the usual time, not what was left of one."""
        if self.sock is not None:
            self.sock.settimeout(bounds.READ_S)
        super().send(data)


class _TlsConnection(_Connection, HTTPSConnection):
    pass


class _UnixLink(_Connection):
    def __init__(self, *given: Any, socket_path: str, **options: Any) -> None:  # noqa: ANN401
        super().__init__(*given, **options)
        self._path = socket_path

    def connect(self) -> None:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.settimeout(self.timeout)
            made.connect(self._path)
        except OSError as error:
            made.close()
            raise NewConnectionError(self, str(error)) from error
        self.sock = made


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


class _UnixPool(HTTPConnectionPool):
    ConnectionCls = _UnixLink


class _Adapter(HTTPAdapter):
    """HTTP, and TLS by a pinned certificate, else by those that the system trusts."""

    def __init__(self, fingerprint: str) -> None:
        # With a pin it alone decides, so that a self-signed certificate will do.
        pin = fingerprint.removeprefix("SHA256:")
        self._tls: dict[str, Any] = (
            {"assert_fingerprint": pin, "assert_hostname": False}
            if pin
            else {"ssl_context": ssl.create_default_context()}
        )
        super().__init__(max_retries=0)

    def init_poolmanager(
        self,
        connections: int,
        maxsize: int,
        block: bool = False,
        **options: Any,  # noqa: ANN401
    ) -> None:
        super().init_poolmanager(connections, maxsize, block, **self._tls, **options)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:  # noqa: ANN401
        found = super().proxy_manager_for(proxy, **self._tls, **options)
        found.pool_classes_by_scheme = _POOLS
        return found


_POOLS = {"http": _Pool, "https": _TlsPool}


class _UnixAdapter(HTTPAdapter):
    """HTTP at one Unix socket, never at a proxy."""

    def __init__(self, path: str) -> None:
        self._pool = _UnixPool("localhost", socket_path=path)
        super().__init__(max_retries=0)

    def get_connection_with_tls_context(self, *_: Any, **__: Any) -> _UnixPool:  # noqa: ANN401
        return self._pool

    def close(self) -> None:
        self._pool.close()
        super().close()


class _ResponseBody(io.RawIOBase):
    """The body of an answer, as bytes come."""

    def __init__(self, response: requests.Response, url: str) -> None:
        self._raw, self._url, self._brought = response.raw, url, 0
        answer = response.raw._original_response
        assert isinstance(answer, _TimedAnswer)
        self._timed = answer.timed

    def piece(self, most: int) -> bytes:
        """Return what has come, and wait for it if nothing has; b"" at the end."""
        with failing(self._url):
            found = bytes(self._raw.read1(most, decode_content=False))
        self._brought += len(found)
        if self._brought >= bounds.LEAST_BYTES:
            self._brought = 0
            self._timed.allow(bounds.SLOW_S)
        return found

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 - as RawIOBase has it
        """Read what has come into a buffer."""
        piece = self.piece(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)


def _explained(error: Exception, url: str) -> RaiError:
    causes = list(_causes(error))
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        hint = f"if it signs its own, pin its certificate: rai login {url}"
        why = next(c for c in causes if isinstance(c, ssl.SSLCertVerificationError))
        text = f"this system does not trust the certificate of {url}"
        return UntrustedServerError(
            Problem(f"{text}: {shown(why.verify_message)}", hint=hint)
        )
    if any("Fingerprints did not match" in str(cause) for cause in causes):
        hint = (
            "if whoever runs it says that it was replaced, and names the fingerprint:"
            f" rai login {url} --fingerprint SHA256:..."
        )
        text = f"the certificate of {url} is not the one that is pinned"
        return UntrustedServerError(Problem(text, hint=hint))
    if isinstance(error, requests.exceptions.ProxyError):
        text = f"no connection to {url} through the proxy: {_why(causes)}"
        return UnreachableError(text)
    if isinstance(error, requests.Timeout) or any(
        isinstance(cause, TimeoutError) for cause in causes
    ):
        return UnreachableError(f"{url} does not answer in time")
    return UnreachableError(f"no connection to {url}: {_why(causes)}")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it was made of, in the ways of each library."""
    found: list[BaseException] = []
    ahead: list[object] = [error]
    while ahead:
        one = ahead.pop()
        if not isinstance(one, BaseException) or one in found:
            continue
        found.append(one)
        yield one
        ahead += [one.__context__, one.__cause__, getattr(one, "reason", None)]
        ahead += one.args


def _why(causes: list[BaseException]) -> str:
    """Return the system's own words, if it is the system that failed."""
    for cause in causes:
        if isinstance(cause, OSError) and cause.strerror:
            if cause.errno and not isinstance(cause, socket.gaierror):
                return os.strerror(cause.errno)
            return shown(cause.strerror)  # the resolver's numbers are its own
    if any(isinstance(cause, http.client.IncompleteRead) for cause in causes):
        return "its answer broke off"
    return shown(str(causes[-1])) or type(causes[-1]).__name__
