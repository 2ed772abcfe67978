"""Downloads: checked, limited, and given up on quickly."""

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

from runner.archive.datafiles.failed import FailedError
from runner.core import GIB, MIB
from runner.core.events import Progress

SILENCE_S = 10.0
"""How long a server may take to connect, and between two pieces."""

TOTAL_S = 900.0
MOST_BYTES = 2 * GIB
_CHUNK = MIB // 4


class Downloads:
    """The downloads of one run: a server that was not reached is not asked again."""

    def __init__(self) -> None:
        self._down: dict[str, FailedError] = {}
        self._opener = urllib.request.OpenerDirector()
        # Not the default opener: a redirection may lead to no other kind of address.
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
        """Have the file at ``into``; FailedError says why not."""
        host = _host(url)
        if host in self._down:
            raise self._down[host]
        try:
            yield from self._once(url, host, into, md5)
        except FailedError as error:
            if error.down:
                self._down[host] = error
            if not error.again:
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
            raise FailedError(f"{into.parent} cannot be written to: {error}") from error
        try:
            with (
                part.open("wb") as out,
                self._opener.open(request, timeout=SILENCE_S) as response,
            ):
                got = yield from _copied(response, out, f"download {into.name}", host)
            if md5 and got != md5.lower():
                raise FailedError(
                    f"what {host} sent has another md5 than {md5}", again=True
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
        raise FailedError(f"its address cannot be understood: {error}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise FailedError("its address is not one of http or https")
    return host


def _fresh(into: Path) -> Path:
    """Make a file of its own: another process may download the same."""
    handle, name = tempfile.mkstemp(".part", f".{into.name}.", into.parent)
    os.close(handle)
    return Path(name)


def _copied(
    response: http.client.HTTPResponse, out: BinaryIO, task: str, host: str
) -> Generator[Progress, None, str]:
    """Copy the answer out; give its md5."""
    total = response.length
    md5 = hashlib.md5(usedforsecurity=False)
    deadline = time.monotonic() + TOTAL_S
    done = shown = 0
    yield Progress(task, 0, total)
    # Not read(): a server that trickles would hold that up past the deadline.
    while done != total and (chunk := response.read1(_CHUNK)):
        done += len(chunk)
        if max(done, total or 0) > MOST_BYTES:
            raise FailedError(f"{host} sends more than {MOST_BYTES // MIB} MiB")
        if time.monotonic() > deadline:
            raise FailedError(f"{host} takes longer than {TOTAL_S:.0f} s")
        md5.update(chunk)
        out.write(chunk)
        if done - shown >= MIB:
            shown = done
            yield Progress(task, done, total)
    if total is not None and done != total:
        raise FailedError(f"{host} broke off", again=True)
    yield Progress(task, done, total)
    return md5.hexdigest()


def _failed(error: Exception, host: str) -> FailedError:
    """Say in a few words what an exception of the network means."""
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        again = error.code >= 500
        return FailedError(f"{host} answers {error.code} {error.msg}", again=again)
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, socket.gaierror):
        return FailedError(f"the name {host} is not known here", down=True)
    if isinstance(cause, TimeoutError):
        return FailedError(f"{host} is silent for {SILENCE_S:.0f} s", down=True)
    if isinstance(cause, ssl.SSLError):
        return FailedError(f"{host} is not trusted: {cause.reason}", down=True)
    if isinstance(cause, ConnectionRefusedError):
        return FailedError(f"{host} refuses the connection", down=True)
    broke = isinstance(cause, (ConnectionError, http.client.HTTPException))
    return FailedError(f"the download from {host} failed: {cause}", again=broke)
