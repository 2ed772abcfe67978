"""Connections, plain and by TLS: none is held for nothing, and none leaves anything."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import resource
import socket
import ssl
import struct
import threading
from collections import Counter
from contextlib import suppress

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

from runner.server import bounds, connections
from runner.server.connections import BoundedListener
from tests.kit.waiting import until
from tests.kit.web import ANSWER_S, COSTLY_S, held, opened

pytestmark = pytest.mark.lengthy

ASK = b"GET /healthz HTTP/1.1\r\nHost: h\r\n"
SOON_S = 0.3


async def quick(request):
    return PlainTextResponse("ok")


async def slow(request):
    async def pours():
        yield b"a"
        await asyncio.sleep(600)

    return StreamingResponse(pours())


async def much(request):
    return PlainTextResponse(bytes(8 << 20))


@pytest.fixture(params=[True, False], ids=["plain", "tls"])
def link(request):
    """Return what makes a connection to a small application."""
    names = {"/healthz": quick, "/slow": slow, "/much": much}
    routes = [
        Route(path, endpoint, methods=["GET", "PUT"])
        for path, endpoint in names.items()
    ]
    links = []
    with opened(Starlette(routes=routes)) as doors:

        def connected():
            links.append(doors.link(request.param))
            return links[-1]

        yield connected
        for one in links:
            one.close()


def closed(link):
    """Read to the end of a connection; return all that came."""
    found = b""
    try:
        while piece := link.recv(65536):
            found += piece
    except OSError as error:
        assert not isinstance(error, TimeoutError)
    return found


def drip(link, piece):
    """Send a piece again and again until the connection ends; return all that came."""
    found, more = b"", True
    link.settimeout(SOON_S / 20)
    with suppress(ConnectionError, ssl.SSLError):
        while more:
            link.sendall(piece)
            with suppress(TimeoutError):
                more = link.recv(65536)
                found += more
    return found


@pytest.mark.parametrize("abrupt", [True, False])
def test_a_closed_connection_leaves_no_object_and_no_timer(link, abrupt):
    gc.collect()
    gc.disable()  # nothing waits for a collection, which may be long in coming
    try:
        for number in range(2):
            one = link()
            one.sendall(
                (ASK if number % 2 else ASK.replace(b"healthz", b"slow")) + b"\r\n"
            )
            assert b"200" in one.recv(1000)
            if abrupt:
                reset = struct.pack("ii", 1, 0)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            one.close()
        until(lambda: not held(), look_s=COSTLY_S)
    finally:
        gc.enable()


def test_no_connection_is_held_without_a_request_for_half_a_minute():
    # What a connection may cost without a request: a handshake, a head, and its end.
    assert bounds.HANDSHAKE_S + bounds.HEAD_S + bounds.STOP_S < 30
    assert bounds.REST_S < bounds.HEAD_S
    assert bounds.SLOW_S < 30


@pytest.mark.parametrize("sent", [b"", ASK, ASK + b"\r\n" + ASK])
def test_a_connection_without_a_request_is_closed(link, monkeypatch, sent):
    monkeypatch.setattr(bounds, "HEAD_S", SOON_S)
    one = link()
    one.sendall(sent)
    assert closed(one).count(b"200 OK") == sent.count(b"\r\n\r\n")


def test_a_header_now_and_then_does_not_hold_a_connection(link, monkeypatch):
    monkeypatch.setattr(bounds, "HEAD_S", SOON_S)
    for before in (b"", ASK + b"\r\n"):
        one = link()
        one.sendall(before + ASK)
        assert drip(one, b"X: y\r\n").count(b"200 OK") == bool(before)


@pytest.mark.parametrize(
    ("method", "length"),
    [(b"GET", b"Transfer-Encoding: chunked"), (b"PUT", b"Content-Length: 1000000")],
)
def test_the_rest_of_a_body_does_not_hold_a_connection(
    link, monkeypatch, method, length
):
    monkeypatch.setattr(bounds, "REST_S", SOON_S)
    ask = ASK.replace(b"GET", method) + length + b"\r\n\r\n"
    for more in (b"", b"1\r\na\r\n"):
        one = link()
        one.sendall(ask)
        assert b"200 OK" in one.recv(1000)
        if more:
            drip(one, more)
        closed(one)


def test_a_client_that_sends_the_rest_of_its_body_is_served_again(link):
    one = link()
    for _ in range(3):
        one.sendall(ASK + b"Content-Length: 100\r\n\r\n")
        found = b""
        while not found.endswith(b"ok"):
            found += one.recv(1000)
        assert b"200 OK" in found
        one.sendall(bytes(100))


def test_an_answer_that_nobody_takes_does_not_hold_a_connection(link, monkeypatch):
    for name in ("TAKE_S", "HEAD_S"):  # by TLS one begins after the other
        monkeypatch.setattr(bounds, name, SOON_S)
    one = link()
    one.sendall(ASK.replace(b"healthz", b"much") + b"\r\n")
    assert one.recv(100)
    until(lambda: not held(), look_s=COSTLY_S)


def test_a_handshake_that_does_not_come_does_not_hold_a_connection(monkeypatch):
    monkeypatch.setattr(bounds, "HANDSHAKE_S", SOON_S)
    with opened(Starlette()) as doors:
        at = ("127.0.0.1", doors.port)
        with socket.create_connection(at, ANSWER_S) as silent:
            assert closed(silent) == b""
        with socket.create_connection(at, ANSWER_S) as dripping:
            drip(dripping, b"\x16")


def test_a_request_that_is_answered_is_not_hurried(link, monkeypatch):
    monkeypatch.setattr(bounds, "HEAD_S", SOON_S)
    one = link()
    one.sendall(ASK.replace(b"healthz", b"slow") + b"\r\n")
    assert b"200 OK" in one.recv(1000)
    one.settimeout(2 * SOON_S)
    with pytest.raises(TimeoutError):
        while b"a" in one.recv(1000):
            pass


def test_stopping_ends_what_does_not_end_by_itself(monkeypatch):
    monkeypatch.setattr(bounds, "STOP_S", SOON_S)
    told = threading.Event()
    with opened(Starlette(routes=[Route("/slow", slow)]), told.set) as doors:
        one = doors.link(plain=True)
        one.sendall(ASK.replace(b"healthz", b"slow") + b"\r\n")
        assert b"200 OK" in one.recv(1000)
    assert told.is_set()
    closed(one)
    one.close()


def test_connections_that_end_oddly_write_nothing_into_the_log(link, caplog):
    caplog.set_level(logging.WARNING)
    for sent in (b"", ASK, ASK + b"\r\n", ASK + b"Connection: close\r\n\r\n"):
        one = link()
        one.sendall(sent)
        one.close()
    until(lambda: not held(), look_s=COSTLY_S)
    assert caplog.records == []


@pytest.fixture
def bounded(monkeypatch):
    monkeypatch.setattr(bounds, "MOST_OF_ONE", 2)
    bound = socket.create_server(("127.0.0.1", 0))
    with BoundedListener(bound, Counter()) as found:
        found.settimeout(0.1)
        yield found


def connected(bounded):
    return socket.create_connection(bounded.getsockname(), timeout=5)


def test_one_client_has_so_many_connections_and_others_have_theirs(
    bounded, monkeypatch
):
    clients = iter(["a", "a", "a", "b", "a"])
    monkeypatch.setattr(connections, "_client", lambda *_: next(clients))
    links = [connected(bounded) for _ in range(4)]
    taken = [bounded.accept()[0] for _ in range(3)]
    assert links[2].recv(1) == b""  # closed at once
    with pytest.raises(TimeoutError):
        bounded.accept()
    taken[0].close()
    taken[0].close()
    with connected(bounded), bounded.accept()[0] as again:
        assert again.fileno() >= 0
    for link in (*links, *taken):
        link.close()


def test_all_clients_together_leave_files_for_what_the_server_does(
    bounded, monkeypatch
):
    monkeypatch.setattr(connections, "_most", lambda: 1)
    with connected(bounded), bounded.accept()[0], connected(bounded) as more:
        with pytest.raises(TimeoutError):
            bounded.accept()
        assert more.recv(1) == b""


def test_a_lack_of_files_is_raised_once_and_not_for_each_of_the_backlog(
    bounded, monkeypatch
):
    def none(_):
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(socket.socket, "accept", none)
    with pytest.raises(OSError, match="too many") as raised:
        bounded.accept()
    assert not isinstance(raised.value, BlockingIOError)
    with pytest.raises(BlockingIOError):
        bounded.accept()


def test_only_what_comes_from_afar_is_bounded_by_address():
    ours, theirs = socket.socketpair()
    with ours, theirs, socket.socket() as link:
        assert connections._client(link, ("127.0.0.1", 1)) == ""
        assert connections._client(link, ("192.0.2.7", 1)) == "192.0.2.7"
        assert connections._client(ours, "") == ""  # this user's own


def test_a_connection_may_have_a_few_files():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
    try:
        assert connections._most() == 128
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
