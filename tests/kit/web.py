"""A server's application for tests: served in a thread, by TLS and at a Unix socket."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import http.client
import os
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette

from runner.core import Reason, RunRequest
from runner.core.request import from_json
from runner.core.wire import Scope
from runner.server import listening
from runner.server.app import make_app
from runner.server.connections import Listener, PatientProtocol, served
from runner.server.database import Store
from runner.server.database.accounts import Invitation
from runner.server.decision import QueueDecision
from runner.server.requests import Site
from runner.server.scheduling import ServerRules
from tests.kit import certificates
from tests.kit.fake_runs import FakeRuns
from tests.kit.store_rows import new_store

ANSWER_S = 60.0
SPEC = "rai:\n  version: 0.2\n  image: gcc:12\ncommands:\n  build:\n    - ./program\n"
PROJECT = b"a packed project"
RUN = "0123456789"


class Reply(msgspec.Struct):
    """A whole answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class UnixConnection(http.client.HTTPConnection):
    """HTTP at a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=ANSWER_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(ANSWER_S)
        self.sock.connect(str(self._path))


class Doors:
    """Where an application is served: ``plain`` at a Unix socket, else by TLS."""

    def __init__(self, path: Path, port: int) -> None:
        self.path, self.port = path, port

    def link(self, plain: bool, source: str = "127.0.0.1") -> socket.socket:
        """Return a connection; by TLS it comes from an address of this machine."""
        if plain:
            link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            link.settimeout(ANSWER_S)
            link.connect(str(self.path))
            return link
        at = ("127.0.0.1", self.port)
        link = socket.create_connection(at, ANSWER_S, source_address=(source, 0))
        return ssl._create_unverified_context().wrap_socket(link)


class WebServer:
    """A server under test; ``now`` is its clock, which a test may set forward."""

    def __init__(self, folder: Path, rules: ServerRules, gpus: int = 0) -> None:
        self.folder = folder
        self.store = new_store(folder, Store)
        self.runs = FakeRuns(folder / "home", gpus)
        self.clock, self.ahead = time.time, 0.0
        self.woken = 0
        self.decision: QueueDecision = QueueDecision()
        self.socket = folder / "server.sock"
        self.site = Site(
            self.store,
            self.runs,
            rules,
            folder / "uploads",
            self._wake,
            lambda: self.decision,
            self.now,
        )
        self.app = make_app(self.site)
        self.doors: Doors

    def now(self) -> float:
        return self.clock() + self.ahead

    def _wake(self) -> None:
        self.woken += 1

    def token(self, team: str, person: str = "ann", role: str = "") -> str:
        """Return a new token of a person, who is added if new."""
        codes = self.store.invite([Invitation(team, person, role)], self.now(), 60.0)
        made = self.store.redeem(codes[0].code, "test", self.now(), None, tuple(Scope))
        assert made is not None
        return made[0]

    def connection(self) -> UnixConnection:
        return UnixConnection(self.socket)

    def ask(
        self,
        method: str,
        path: str,
        token: str = "",
        body: object = None,
        headers: Mapping[str, str] | None = None,
        source: str = "",
    ) -> Reply:
        """Send a request; a body that is not bytes goes as JSON.

        It goes by TLS if it has a source, an address of this machine.
        """
        sent = dict(headers or {})
        if token:
            sent["Authorization"] = f"Bearer {token}"
        if body is not None and not isinstance(body, bytes):
            body = msgspec.json.encode(body)
        link = self.connection()
        if source:
            link.sock = self.doors.link(plain=False, source=source)
        try:
            link.request(method, path, body=body, headers=sent)
            with closing(link.getresponse()) as answer:
                named = {name.lower(): value for name, value in answer.getheaders()}
                return Reply(answer.status, named, answer.read())
        finally:
            link.close()

    def begun(
        self, method: str, path: str, token: str, length: int, body: bytes = b""
    ) -> socket.socket:
        """Return a connection on which a request with a part of its body was sent."""
        link = self.doors.link(plain=True)
        link.sendall(
            f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Length: {length}\r\n\r\n".encode()
            + body
        )
        return link

    def upload(self, token: str, data: bytes = PROJECT) -> str:
        """Send a packed project whole; return its SHA-256."""
        sha256 = hashlib.sha256(data).hexdigest()
        sent = self.ask("PUT", f"/api/v1/uploads/{sha256}", token, data)
        assert sent.status == 201, sent
        return sha256

    def put(self, token: str, run_id: str = "", **changes: Any) -> Reply:
        """Ask for a run."""
        run_id = run_id or os.urandom(5).hex()
        asked = msgspec.structs.replace(request(self.upload(token)), **changes)
        return self.ask("PUT", f"/api/v1/runs/{run_id}", token, asked)

    def begin(self, run_id: str) -> None:
        """Have a worker take a run that waits, as the server's feeder does."""
        row = self.store.run(run_id)
        assert row is not None and self.store.claim(run_id, row.attempt)
        self.runs.start(run_id, from_json(row.parcel))
        self.store.started(run_id, self.now())

    def end(self, run_id: str, reason: Reason = Reason.DONE) -> None:
        """End a run that a worker took."""
        self.runs.end(run_id, reason)
        self.store.ended(run_id, self.now(), reason)


def request(upload: str, spec: str = SPEC, **more: Any) -> RunRequest:
    """Return a request for a run of an upload."""
    fields = {
        "project": "/home/ann/project",
        "spec_file": "/home/ann/project/rai_build.yml",
        "spec_text": spec,
        "sha256": "0" * 64,
        "upload": upload,
    }
    return RunRequest(**(fields | more))


@contextmanager
def serving(
    folder: Path, rules: ServerRules | None = None, gpus: int = 0
) -> Iterator[WebServer]:
    """Serve in a thread until the end of the block."""
    web = WebServer(folder, rules or ServerRules(low_disk_bytes=0), gpus)
    try:
        with opened(web.app, web.app.state.end_streams) as web.doors:
            web.socket = web.doors.path
            yield web
    finally:
        web.runs.close()
        web.store.close()


COSTLY_S = 0.2
"""How often to ask that: all objects of the process are looked at."""


def held() -> int:
    """Return of how many connections this process, which serves, keeps an object."""
    if gc.isenabled():
        gc.collect()
    return sum(isinstance(one, PatientProtocol) for one in gc.get_objects())


@contextmanager
def opened(
    app: Starlette, stopping: Callable[[], None] = lambda: None
) -> Iterator[Doors]:
    """Serve an application in a thread, as a server does, until the block's end."""
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # a socket's name is short
        doors = Doors(Path(short, "server.sock"), 0)
        remote = socket.create_server(("127.0.0.1", 0))
        doors.port = remote.getsockname()[1]
        local = listening.unix(doors.path, 0o600)
        listeners = [
            Listener(local),
            Listener(remote, listening.loaded(_pem(), _pem())),
        ]
        ready, loop = threading.Event(), asyncio.new_event_loop()
        stop = asyncio.Event()

        def work() -> None:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(served(app, listeners, stop, ready.set, stopping))

        thread = threading.Thread(target=work)
        thread.start()
        try:
            assert ready.wait(ANSWER_S)
            yield doors
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join(ANSWER_S)
            assert not thread.is_alive()


@cache
def _pem() -> Path:
    return certificates.make(Path(tempfile.mkdtemp(prefix="rai-pem-")), "server")
