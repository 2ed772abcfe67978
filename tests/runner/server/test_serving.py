"""Connections of clients that ask slowly, too much, or nothing."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.runner.remote import certificates

pytestmark = pytest.mark.programs

ASK = b"GET / HTTP/1.1\r\nHost: h\r\n"
HEAD_S = 0.5
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def server(tmp_path):
    """Start a server; it says on its stdout when it is ready, and when it stops."""
    path = tmp_path / "s"
    program = [sys.executable, "-m", "tests.runner.server.small_app"]
    with subprocess.Popen(
        [*program, path, str(HEAD_S)], cwd=ROOT, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        try:
            assert process.stdout.read(1) == b"r"
            yield path, process
        finally:
            process.kill()


def test_a_tls_connection_leaves_no_trace_on_stderr(tmp_path):
    pem = certificates.make(tmp_path, "server")
    context = ssl._create_unverified_context()
    program = [sys.executable, "-m", "tests.runner.server.small_app", tmp_path / "s"]
    with subprocess.Popen(
        [*program, str(HEAD_S), pem],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    ) as process:
        try:
            assert process.stdout.read(1) == b"r"
            for _ in range(5):
                with context.wrap_socket(connected(tmp_path / "s")) as link:
                    link.sendall(ASK + b"Connection: close\r\n\r\n")
                    assert b"200" in link.recv(100)
            process.terminate()
            assert process.stderr.read() == b""
        finally:
            process.kill()


def connected(path) -> socket.socket:
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(20.0)
    link.connect(str(path))
    return link


def test_a_connection_without_a_request_is_closed(server):
    for sent in (b"", b"G", ASK):
        with connected(server[0]) as link:
            link.sendall(sent)
            assert link.recv(100) == b""


def test_a_header_now_and_then_does_not_hold_a_connection(server):
    with connected(server[0]) as link:
        link.sendall(ASK)
        stop = threading.Event()

        def drip():
            while not stop.wait(HEAD_S / 10):
                try:
                    link.sendall(b"X: y\r\n")
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        with contextlib.suppress(ConnectionResetError):
            assert link.recv(100) == b""
        stop.set()
        thread.join()


def test_a_request_that_is_answered_is_not_hurried(server):
    with connected(server[0]) as link:
        link.sendall(ASK.replace(b"/ H", b"/slow H") + b"\r\n")
        assert b"200 OK" in link.recv(1000)
        link.settimeout(3 * HEAD_S)
        with pytest.raises(TimeoutError):
            while b"a" in link.recv(1000):
                pass


def test_sigterm_ends_what_does_not_end_by_itself(server):
    path, process = server
    with connected(path) as link:
        link.sendall(ASK.replace(b"/ H", b"/slow H") + b"\r\n")
        link.recv(1000)
        process.terminate()
        assert process.stdout.read(1) == b"s"
        while link.recv(1000):
            pass
        assert process.wait(20.0) == 0
