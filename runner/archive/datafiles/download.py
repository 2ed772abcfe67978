"""Download files: check them, limit them, and give up quickly."""

from __future__ import annotations

import hashlib
import http.client
import os
import socket
import ssl
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO

from runner import machine
from runner.archive.datafiles.failed import UnavailableError
from runner.core import GIB, MIB
from runner.core.events import Progress

SILENCE_S = 10.0
"""How long a server may take to connect, and between two chunks."""

TOTAL_S = 900.0
MOST_BYTES = 2 * GIB
_CHUNK = MIB // 4


class Downloads:
    """The downloads of one run; a server that could not be reached is not retried."""

    def __init__(self) -> None:
        self._down: dict[str, UnavailableError] = {}
        self._opener = urllib.request.OpenerDirector()
        # The default opener would follow a redirect to other kinds of addresses.
        for handler in (
            urllib.request.ProxyHandler,
            urllib.request.UnknownHandler,
            urllib.request.HTTPHandler,
            urllib.request.HTTPSHandler,
            urllib.request.HTTPDefaultErrorHandler,
            urllib.request.HTTPRedirectHandler,
            urllib.request.HTTPErrorProcessor,
        ):
            self._opener.add_handler(handler())

    def fetch(
        self, url: str, into: Path, md5: str | None
    ) -> Generator[Progress, None, None]:
        """Download a file to ``into``; raise UnavailableError if that fails."""
        host = _host(url)
        if host in self._down:
            raise self._down[host]
        try:
            yield from self._once(url, host, into, md5)
        except UnavailableError as error:
            if error.unreachable:
                self._down[host] = error
            if not error.retry:
                raise
            yield from self._once(url, host, into, md5)

    def _once(
        self, url: str, host: str, into: Path, md5: str | None
    ) -> Generator[Progress, None, None]:
        request = urllib.request.Request(url, headers={"User-Agent": "rai"})
        try:
            into.parent.mkdir(parents=True, exist_ok=True)
            part = _fresh(into)
        except OSError as error:
            raise UnavailableError(
                f"{into.parent} cannot be written to: {error}"
            ) from error
        try:
            with (
                part.open("wb") as out,
                self._opener.open(request, timeout=SILENCE_S) as response,
            ):
                got = yield from _copied(response, out, f"download {into.name}", host)
            if md5 and got != md5.lower():
                raise UnavailableError(
                    f"the file that {host} sent does not have the md5 {md5}", retry=True
                )
            part.replace(into)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _failed(error, host) from error
        finally:
            part.unlink(missing_ok=True)


def _host(url: str) -> str:
    try:
        parts = urllib.parse.urlsplit(url)
        host = parts.hostname
    except ValueError as error:
        raise UnavailableError(f"its address is not valid: {error}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise UnavailableError("its address is not an http or https address")
    return host


def _fresh(into: Path) -> Path:
    """Make a new file, since another process may download the same.

    Those of processes that were killed are removed.
    """
    for part in into.parent.parent.glob("*/.new-*.part"):
        if machine.has_ended(part.name.removesuffix(".part")):
            part.unlink(missing_ok=True)
    prefix = f".new-{machine.this_process().tag}-"
    handle, name = tempfile.mkstemp(".part", prefix, into.parent)
    os.close(handle)
    return Path(name)


def _copied(
    response: http.client.HTTPResponse, out: BinaryIO, task: str, host: str
) -> Generator[Progress, None, str]:
    """Copy the response to a file; return its md5."""
    total = response.length
    md5 = hashlib.md5(usedforsecurity=False)
    deadline = time.monotonic() + TOTAL_S
    done = shown = 0
    yield Progress(task, 0, total)
    # With a slow server read() would return only after the deadline.
    while done != total and (chunk := response.read1(_CHUNK)):
        done += len(chunk)
        if max(done, total or 0) > MOST_BYTES:
            raise UnavailableError(f"{host} sends more than {MOST_BYTES // MIB} MiB")
        if time.monotonic() > deadline:
            raise UnavailableError(f"{host} takes longer than {TOTAL_S:.0f} s")
        md5.update(chunk)
        out.write(chunk)
        if done - shown >= MIB:
            shown = done
            yield Progress(task, done, total)
    if total is not None and done != total:
        raise UnavailableError(f"{host} closed the connection early", retry=True)
    yield Progress(task, done, total)
    return md5.hexdigest()


def _failed(error: Exception, host: str) -> UnavailableError:
    """Return the short error for an exception of the network."""
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        again = error.code >= 500
        return UnavailableError(f"{host} answers {error.code} {error.msg}", retry=again)
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, socket.gaierror):
        return UnavailableError(
            f"the name {host} cannot be resolved: {cause.strerror}", unreachable=True
        )
    if isinstance(cause, TimeoutError):
        return UnavailableError(
            f"{host} is silent for {SILENCE_S:.0f} s", unreachable=True
        )
    if isinstance(cause, ssl.SSLError):
        return UnavailableError(
            f"{host} is not trusted: {cause.reason}", unreachable=True
        )
    if isinstance(cause, ConnectionRefusedError):
        return UnavailableError(f"{host} refuses the connection", unreachable=True)
    broke = isinstance(cause, (ConnectionError, http.client.HTTPException))
    return UnavailableError(f"the download from {host} failed: {cause}", retry=broke)
