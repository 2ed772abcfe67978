"""A server that would hold its client for ever: each answer has its time."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from runner.client import bounds
from runner.client.api import ServerClient
from runner.client.problems import UnreachableError
from runner.client.profile import ProfileEntry
from tests.kit import certificates
from tests.kit.played import TOKEN

RUN = "0123456789"
HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"

Pieces = Iterator[bytes]


def trickled(before: bytes, piece: bytes) -> Pieces:
    """Yield a piece again and again, so that no read of the client's waits for long."""
    yield before
    while True:
        time.sleep(0.01)
        yield piece


def poured(before: bytes, piece: bytes) -> Pieces:
    """Yield a piece as often as the client takes it."""
    return itertools.chain([before], itertools.repeat(piece))


HOSTILE: dict[str, Callable[[], Pieces]] = {
    "silence": lambda: trickled(b"", b""),
    "endless 100 Continue": lambda: poured(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 99),
    "100 Continue now and then": lambda: trickled(b"", b"HTTP/1.1 100 Go on\r\n\r\n"),
    "a trickled status": lambda: trickled(b"HTTP/1.1 200 ", b"O"),
    "a trickled header": lambda: trickled(HEAD + b"X: ", b"x"),
    "silence in the headers": lambda: trickled(HEAD, b""),
    "a trickled body": lambda: trickled(HEAD + b"Content-Length: 9999\r\n\r\n", b" "),
    "a body without an end": lambda: trickled(HEAD + b"\r\n", b" "),
    "silence in the body": lambda: trickled(HEAD + b"Content-Length: 9\r\n\r\n", b""),
    "trickled chunks": lambda: trickled(CHUNKED, b"1\r\n \r\n"),
    "a trickled size of a chunk": lambda: trickled(CHUNKED, b"0"),
    "a chunk's endless extension": lambda: trickled(CHUNKED + b"1;", b"x"),
    "trickled trailers": lambda: trickled(CHUNKED + b"0\r\n", b"x: y\r\n"),
    "endless trailers": lambda: poured(CHUNKED + b"0\r\n", b"x: y\r\n" * 999),
}


@contextmanager
def hostile(pieces: Callable[[], Pieces], pem: Path | None = None) -> Iterator[str]:
    """Answer each request at a port with these pieces, until its client has gone."""
    listening = socket.create_server(("127.0.0.1", 0))
    tls = certificates.context(pem) if pem else None
    over = threading.Event()

    def answer(link: socket.socket) -> None:
        with (
            suppress(OSError),
            tls.wrap_socket(link, server_side=True) if tls else link as at,
        ):
            at.recv(65536)
            for piece in pieces():
                if over.is_set():
                    break
                at.sendall(piece)

    def accept() -> None:
        with suppress(OSError):
            while True:
                link, _ = listening.accept()
                threading.Thread(target=answer, args=[link], daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    scheme = "https" if tls else "http"
    try:
        yield f"{scheme}://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        over.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def ask(client: ServerClient, folder: Path) -> None:
    client.me()


def tail(client: ServerClient, folder: Path) -> None:
    with client.tail(RUN, {}, 0) as body:
        while body.read1(100):
            pass


def download(client: ServerClient, folder: Path) -> None:
    client.download(RUN, "build.tar.zst", folder / "build.tar.zst", 1 << 30)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "READ_S", 0.2)
    monkeypatch.setattr(bounds, "SLOW_S", 0.2)


@pytest.mark.parametrize("call", [ask, tail, download])
def test_no_answer_holds_a_client_past_its_time(call, tmp_path):
    def held(name: str) -> None:
        with (
            hostile(HOSTILE[name]) as url,
            ServerClient(ProfileEntry(url, TOKEN)) as client,
            pytest.raises(UnreachableError),
        ):
            (tmp_path / name).mkdir()
            call(client, tmp_path / name)

    began = time.monotonic()
    with ThreadPoolExecutor(len(HOSTILE)) as pool:
        done = {name: pool.submit(held, name) for name in HOSTILE}
    assert {
        name: one.exception() for name, one in done.items() if one.exception()
    } == {}
    assert time.monotonic() - began < 10


def test_over_tls_none_does_either(tmp_path):
    pem = certificates.make(tmp_path, "server")
    for name in ("endless 100 Continue", "trickled trailers"):
        with hostile(HOSTILE[name], pem) as url:
            entry = ProfileEntry(url, TOKEN, certificates.fingerprint(pem))
            with ServerClient(entry) as client, pytest.raises(UnreachableError):
                client.me()


def test_a_body_that_brings_enough_in_its_time_is_read_to_its_end(
    tmp_path, monkeypatch
):
    """A long answer takes longer than SLOW_S, and is whole."""
    # A busy machine may hold the server up for longer than `soon` allows.
    monkeypatch.setattr(bounds, "READ_S", 10.0)
    monkeypatch.setattr(bounds, "SLOW_S", 1.0)
    whole = 40 * bounds.LEAST_BYTES

    def pieces() -> Pieces:
        yield HEAD + b"Content-Length: %d\r\n\r\n" % whole
        for _ in range(40):
            time.sleep(0.03)
            yield bytes(bounds.LEAST_BYTES)

    with hostile(pieces) as url, ServerClient(ProfileEntry(url, TOKEN)) as client:
        path = tmp_path / "build.tar.zst"
        assert client.download(RUN, "build.tar.zst", path, 1 << 30) == whole
