"""A registry of images in a thread: enough of one to push to and to pull from."""

from __future__ import annotations

import hashlib
import http.server
import secrets
import threading
from typing import ClassVar


class Registry:
    """Serves on a port of this machine, which engines take for a trusted network."""

    def __init__(self) -> None:
        handler = type("Handler", (_Handler,), {"blobs": {}, "manifests": {}})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    blobs: ClassVar[dict[str, bytes]]
    manifests: ClassVar[dict[str, tuple[str, bytes]]]

    def do_GET(self) -> None:
        if self.path == "/v2/":
            return self._answer(200)
        kind, name = self.path.split("/")[-2:]
        if kind == "blobs" and name in self.blobs:
            return self._answer(200, self.blobs[name], digest=name)
        if kind == "manifests" and name in self.manifests:
            media, body = self.manifests[name]
            return self._answer(200, body, media, _digest(body))
        return self._answer(404, b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}')

    do_HEAD = do_GET

    def do_POST(self) -> None:
        self._answer(202, location=self.path + secrets.token_hex(8))

    def do_PATCH(self) -> None:
        body = self.blobs["upload " + self.path] = self._body()
        self._answer(202, location=self.path, received=len(body))

    def do_PUT(self) -> None:
        body = self._body()
        path, _, query = self.path.partition("?")
        if "/manifests/" in path:
            kept = (self.headers["Content-Type"], body)
            self.manifests[path.rpartition("/")[2]] = kept
            self.manifests[_digest(body)] = kept
            return self._answer(201, digest=_digest(body))
        digest = query.partition("digest=")[2].replace("%3A", ":")
        self.blobs[digest] = self.blobs.pop("upload " + path, b"") + body
        return self._answer(201, digest=digest)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        pieces = []
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def _answer(
        self,
        status: int,
        body: bytes = b"",
        media: str = "application/json",
        digest: str = "",
        location: str = "",
        received: int = 0,
    ) -> None:
        self.send_response(status)
        self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(body)))
        if digest:
            self.send_header("Docker-Content-Digest", digest)
        if received:
            self.send_header("Range", f"0-{received - 1}")
        if location:
            self.send_header("Location", location)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def _digest(body: bytes) -> str:
    return "sha256:" + hashlib.sha256(body).hexdigest()
