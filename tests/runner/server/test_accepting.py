"""Connections are accepted within bounds."""

from __future__ import annotations

import errno
import resource
import socket
from collections import Counter

import pytest

from runner.server import accepting, bounds
from runner.server.accepting import BoundedListener


@pytest.fixture
def listener(monkeypatch):
    monkeypatch.setattr(bounds, "MOST_OF_ONE", 2)
    bound = socket.create_server(("127.0.0.1", 0))
    with BoundedListener(bound, Counter()) as found:
        found.settimeout(0.2)
        yield found


def connected(listener):
    return socket.create_connection(listener.getsockname(), timeout=5)


def test_one_client_has_so_many_connections_and_others_have_theirs(
    listener, monkeypatch
):
    clients = iter(["a", "a", "a", "b", "a"])
    monkeypatch.setattr(accepting, "_client", lambda *_: next(clients))
    links = [connected(listener) for _ in range(4)]
    taken = [listener.accept()[0] for _ in range(3)]
    assert links[2].recv(1) == b""  # closed at once
    with pytest.raises(TimeoutError):
        listener.accept()
    taken[0].close()
    taken[0].close()
    with connected(listener), listener.accept()[0] as again:
        assert again.fileno() >= 0
    for link in (*links, *taken):
        link.close()


def test_all_clients_together_leave_files_for_what_the_server_does(
    listener, monkeypatch
):
    monkeypatch.setattr(accepting, "_most", lambda: 1)
    with connected(listener), listener.accept()[0], connected(listener) as more:
        with pytest.raises(TimeoutError):
            listener.accept()
        assert more.recv(1) == b""


def test_a_lack_of_files_is_raised_once_and_not_for_each_of_the_backlog(
    listener, monkeypatch
):
    def none(_):
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(socket.socket, "accept", none)
    with pytest.raises(OSError, match="too many") as raised:
        listener.accept()
    assert not isinstance(raised.value, BlockingIOError)
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_only_what_comes_from_afar_is_bounded_by_address():
    ours, theirs = socket.socketpair()
    with ours, theirs, socket.socket() as link:
        assert accepting._client(link, ("127.0.0.1", 1)) == ""
        assert accepting._client(link, ("192.0.2.7", 1)) == "192.0.2.7"
        assert accepting._client(ours, "") == ""  # this user's own


def test_the_limit_of_files_is_raised(monkeypatch):
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
    try:
        assert accepting._most() == 128
        accepting.raise_file_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
