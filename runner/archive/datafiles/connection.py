"""Connect to web servers: to addresses that were checked, until somebody hangs up."""

from __future__ import annotations

import http.client
import os
import socket
import threading
import urllib.request
from contextlib import suppress
from typing import Any

from runner.archive.datafiles import hosts
from runner.archive.datafiles.failed import UnavailableError
from runner.core.policy import Policy

SILENCE_S = 10.0
"""How long a server may take to connect, and between two packets."""


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

    def get(self, address: hosts.WebAddress) -> http.client.HTTPResponse:
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
        hosts.check(request.target, hosts.literal(request.target), self._policy)
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        if not request.proxied:
            every = [hosts.of(each[4]) for each in found]
            hosts.check(request.target, every, self._policy)
        failure: OSError = OSError(f"{host} has no address")
        for family, kind, protocol, _, address in found:
            made = socket.socket(family, kind, protocol)
            made.settimeout(timeout_s)
            try:
                self._keep(made)
                made.connect(address)
            except OSError as error:
                failure = error
                made.close()
                continue
            return made
        raise failure

    def _keep(self, made: socket.socket) -> None:
        """Keep a second handle: TLS takes the first one away."""
        with self._lock:
            if self._over:
                raise UnavailableError("the download was stopped")
            self._open.append(socket.socket(fileno=os.dup(made.fileno())))


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
