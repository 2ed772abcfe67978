"""A server's application for tests: served by uvicorn in a thread, at a Unix socket."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import os
import socket
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import uvicorn

from runner.core.parcel import Parcel
from runner.database.base import Invitation
from runner.database.opening import SqlStore, open_store
from runner.scheduling.decision import QueueDecision
from runner.scheduling.roles import ServerRules
from runner.server.app import make_app
from runner.server.base import Site
from runner.server.serving import MOST_HEAD_BYTES, PatientProtocol
from runner.wire.accounts import Scope
from runner.wire.remote_runs import RunRequest
from tests.runner.server.fake_host import FakeHost

ANSWER_S = 30.0
SPEC = "rai:\n  version: 0.2\n  image: gcc:12\ncommands:\n  build:\n    - ./program\n"
PROJECT = b"a packed project"


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


class WebServer:
    """A server under test; ``now`` is its clock, which a test may set forward."""

    def __init__(self, folder: Path, rules: ServerRules, gpus: int = 0) -> None:
        self.folder = folder
        self.store: SqlStore = open_store(f"sqlite:///{folder}/store.sqlite")
        self.host = FakeHost(folder / "jobs", gpus)
        self.ahead = 0.0
        self.woken = 0
        self.decision: QueueDecision[Any] = QueueDecision()
        self.socket = folder / "server.sock"
        self.site = Site(
            self.store,
            self.host,
            rules,
            folder / "uploads",
            self._wake,
            lambda: self.decision,
            self.now,
        )
        self.app = make_app(self.site)
        self.connections: Collection[Any] = ()
        """Those of the clients, as the server has them."""

    def now(self) -> float:
        return time.time() + self.ahead

    def _wake(self) -> None:
        self.woken += 1

    def token(self, team: str, person: str = "ann", role: str = "") -> str:
        """Return a new token of a person, who is added if new."""
        codes = self.store.invite([Invitation(team, person, role)], self.now(), 60.0)
        made = self.store.redeem(codes[0].code, "test", self.now(), None, (Scope.RUN,))
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
    ) -> Reply:
        """Send a request; a body that is not bytes goes as JSON."""
        sent = dict(headers or {})
        if token:
            sent["Authorization"] = f"Bearer {token}"
        if body is not None and not isinstance(body, bytes):
            body = msgspec.json.encode(body)
        link = self.connection()
        try:
            link.request(method, path, body=body, headers=sent)
            with closing(link.getresponse()) as answer:
                named = {name.lower(): value for name, value in answer.getheaders()}
                return Reply(answer.status, named, answer.read())
        finally:
            link.close()

    def upload(self, token: str, data: bytes = PROJECT) -> str:
        """Send a packed project whole; return the id of its upload."""
        asked = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        made = self.ask("POST", "/api/v1/uploads", token, asked)
        assert made.status in (200, 201), made
        state = made.json
        if not state["whole"]:
            at = str(state["offset"])
            path = f"/api/v1/uploads/{state['id']}"
            sent = self.ask(
                "PATCH", path, token, data[state["offset"] :], {"Upload-Offset": at}
            )
            assert sent.json["whole"], sent
        return str(state["id"])

    def put(self, token: str, run_id: str = "", **changes: Any) -> Reply:
        """Ask for a run."""
        run_id = run_id or os.urandom(5).hex()
        asked = msgspec.structs.replace(request(self.upload(token)), **changes)
        return self.ask("PUT", f"/api/v1/runs/{run_id}", token, asked)


def request(upload: str, spec: str = SPEC, **parcel: Any) -> RunRequest:
    """Return a request for a run of an upload."""
    sealed = Parcel(
        "/home/ann/project", "/home/ann/project/rai_build.yml", spec, "0" * 64
    )
    return RunRequest(upload, msgspec.structs.replace(sealed, **parcel))


@contextmanager
def serving(
    folder: Path, rules: ServerRules | None = None, gpus: int = 0
) -> Iterator[WebServer]:
    """Serve in a thread until the end of the block."""
    # A socket's name is short.
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        web = WebServer(folder, rules or ServerRules(low_disk_bytes=0), gpus)
        web.socket = Path(short, "server.sock")
        server = uvicorn.Server(
            uvicorn.Config(
                web.app,
                uds=str(web.socket),
                http=PatientProtocol,
                lifespan="off",
                ws="none",
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=1,
                h11_max_incomplete_event_size=MOST_HEAD_BYTES,
            )
        )
        web.connections = server.server_state.connections
        ready = threading.Event()
        loop = asyncio.new_event_loop()

        async def run() -> None:
            task = loop.create_task(server.serve())
            while not server.started and not task.done():
                await asyncio.sleep(0.005)
            ready.set()
            await task

        def work() -> None:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(run())

        thread = threading.Thread(target=work)
        thread.start()
        try:
            assert ready.wait(ANSWER_S)
            yield web
        finally:
            loop.call_soon_threadsafe(web.app.state.end_streams)
            server.should_exit = True
            thread.join(ANSWER_S)
            web.host.close()
            web.store.close()
