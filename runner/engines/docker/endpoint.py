"""Where the Docker Engine is, and whether it answers: found out without the SDK."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from runner.core import Problem

DEFAULT_URL = (
    "npipe:////./pipe/docker_engine"
    if os.name == "nt"
    else "unix:///var/run/docker.sock"
)
PROBE_TIMEOUT_S = 3.0
API_TIMEOUT_S = 60.0
"""How long an ordinary call may take; a stream may be silent for longer."""

START_IT = (
    "start a Docker Engine, or name one in DOCKER_HOST or by `docker context use`"
)


class Endpoint(Struct, frozen=True):
    """An engine's address; ``origin`` says where the address was found."""

    url: str
    origin: str
    certificates: Path | None = None
    verify: bool = True

    def __str__(self) -> str:
        return f"{self.url} ({self.origin})"

    @property
    def scheme(self) -> str:
        """How the engine is talked to: unix, tcp, http, https, ssh or npipe."""
        return urlsplit(self.url).scheme

    def environment(self) -> dict[str, str]:
        """Give the variables that point the docker command line at this engine."""
        named = {"DOCKER_HOST": self.url, "DOCKER_CONTEXT": ""}
        if self.certificates is not None:
            named["DOCKER_CERT_PATH"] = str(self.certificates)
            named["DOCKER_TLS_VERIFY"] = "1" if self.verify else ""
        return named


class Answer(Struct, frozen=True):
    """What became of asking an engine; ``problem`` is None where it answered.

    An address that only the SDK can reach (ssh, npipe) counts as answering, with no
    API version: it was named on purpose.
    """

    endpoint: Endpoint
    api_version: str = ""
    problem: Problem | None = None


def find(environ: Mapping[str, str]) -> Endpoint:
    """Read DOCKER_HOST, else the current context, else take the usual socket.

    LookupError says which context was named and is not there.
    """
    if host := environ.get("DOCKER_HOST"):
        return _from_host(host, environ)
    folder = _settings_folder(environ)
    name = environ.get("DOCKER_CONTEXT") or _current_context(folder)
    if name and name != "default":
        return _from_context(name, folder)
    return Endpoint(DEFAULT_URL, "the usual socket")


def reachable(environ: Mapping[str, str]) -> Answer:
    """Find the engine and ask it for a sign of life."""
    try:
        endpoint = find(environ)
    except LookupError as error:
        problem = Problem(str(error), hint="`docker context ls` lists those that exist")
        return Answer(Endpoint("", "context"), problem=problem)
    if endpoint.scheme in ("ssh", "npipe"):
        return Answer(endpoint)
    try:
        return Answer(endpoint, api_version=_ping(endpoint))
    except (OSError, ValueError, http.client.HTTPException) as error:
        return Answer(endpoint, problem=Problem(_cause(error, endpoint), hint=START_IT))


def _settings_folder(environ: Mapping[str, str]) -> Path:
    if named := environ.get("DOCKER_CONFIG"):
        return Path(named)
    return Path(environ.get("HOME") or Path.home()) / ".docker"


def _from_host(host: str, environ: Mapping[str, str]) -> Endpoint:
    url = host if "://" in host else f"tcp://{host}"
    verify = bool(environ.get("DOCKER_TLS_VERIFY"))
    path = environ.get("DOCKER_CERT_PATH")
    if not (verify or path) or urlsplit(url).scheme in ("unix", "ssh", "npipe"):
        return Endpoint(url, "DOCKER_HOST")
    folder = Path(path) if path else _settings_folder(environ)
    return Endpoint(url, "DOCKER_HOST", folder, verify)


def _current_context(folder: Path) -> str:
    try:
        settings = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        return ""
    return str(settings.get("currentContext") or "")


def _from_context(name: str, folder: Path) -> Endpoint:
    key = hashlib.sha256(name.encode()).hexdigest()
    meta = folder / "contexts" / "meta" / key / "meta.json"
    try:
        docker = json.loads(meta.read_bytes())["Endpoints"]["docker"]
        url = str(docker["Host"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LookupError(
            f"the docker context `{name}` has no endpoint in {meta}"
        ) from error
    certificates = folder / "contexts" / "tls" / key / "docker"
    return Endpoint(
        url,
        f"context {name}",
        certificates if certificates.is_dir() else None,
        not docker.get("SkipTLSVerify", False),
    )


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PROBE_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _connection(endpoint: Endpoint) -> http.client.HTTPConnection:
    parts = urlsplit(endpoint.url)
    if parts.scheme == "unix":
        return _UnixConnection(parts.path)
    host = parts.hostname or "localhost"
    if endpoint.certificates is None and parts.scheme != "https":
        port = parts.port or 2375
        return http.client.HTTPConnection(host, port, timeout=PROBE_TIMEOUT_S)
    return http.client.HTTPSConnection(
        host,
        parts.port or 2376,
        timeout=PROBE_TIMEOUT_S,
        context=_tls(endpoint),
    )


def _tls(endpoint: Endpoint) -> ssl.SSLContext:
    context = ssl.create_default_context()
    folder = endpoint.certificates
    if folder is not None and (folder / "ca.pem").exists():
        context.load_verify_locations(folder / "ca.pem")
    if folder is not None and (folder / "cert.pem").exists():
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    if not endpoint.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _ping(endpoint: Endpoint) -> str:
    connection = _connection(endpoint)
    try:
        connection.request("GET", "/_ping")
        answer = connection.getresponse()
        version = answer.getheader("Api-Version") or ""
        if answer.status != http.client.OK or not version:
            raise ValueError(f"status {answer.status}, which is not a Docker Engine's")
        return version
    finally:
        connection.close()


def _cause(error: Exception, endpoint: Endpoint) -> str:
    if isinstance(error, FileNotFoundError):
        return f"no Docker Engine listens at {endpoint}: there is no such socket"
    if isinstance(error, PermissionError):
        return (
            f"no permission to open {endpoint}: be a member of the group that owns it "
            "(usually `docker`)"
        )
    return f"no Docker Engine answers at {endpoint}: {error}"
