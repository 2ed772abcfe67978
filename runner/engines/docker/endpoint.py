"""Find the Docker Engine and check that it answers, without the SDK."""

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
from runner.system import files

DEFAULT_URL = (
    "npipe:////./pipe/docker_engine"
    if os.name == "nt"
    else "unix:///var/run/docker.sock"
)
PROBE_TIMEOUT_S = 3.0
MOST_BYTES = 4 << 20
API_TIMEOUT_S = 60.0
"""The time-out of an ordinary call; a stream may be silent for longer."""

START_IT = "start a Docker Engine, or select one by DOCKER_HOST or `docker context use`"
JOIN_GROUP = "run `sudo usermod -aG docker $USER`, and log in again"


class Endpoint(Struct, frozen=True):
    """An engine's address; ``origin`` is where the address was found."""

    url: str
    origin: str
    certificates: Path | None = None
    verify: bool = True

    def __str__(self) -> str:
        return f"{self.url} ({self.origin})"

    @property
    def scheme(self) -> str:
        """The URL's scheme: unix, tcp, http, https, ssh or npipe."""
        return urlsplit(self.url).scheme

    def environment(self) -> dict[str, str]:
        """Return the variables that make the docker command line use this engine."""
        named = {"DOCKER_HOST": self.url, "DOCKER_CONTEXT": ""}
        if self.certificates is not None:
            named["DOCKER_CERT_PATH"] = str(self.certificates)
            named["DOCKER_TLS_VERIFY"] = "1" if self.verify else ""
        return named


class EngineProbe(Struct, frozen=True):
    """Whether an engine answers; ``problem`` is None if it does.

    An address that only the SDK can reach (ssh, npipe) is not tried: it has neither a
    problem nor an API version.
    """

    endpoint: Endpoint
    api_version: str = ""
    problem: Problem | None = None


def find(environ: Mapping[str, str]) -> Endpoint:
    """Return the engine of DOCKER_HOST, else of the context, else the default socket.

    Raises:
        LookupError: the context that is named does not exist.
    """
    if host := environ.get("DOCKER_HOST"):
        return _from_host(host, environ)
    folder = _settings_folder(environ)
    name = environ.get("DOCKER_CONTEXT") or _current_context(folder)
    if name and name != "default":
        return _from_context(name, folder)
    return Endpoint(DEFAULT_URL, "the default socket")


def probe(environ: Mapping[str, str]) -> EngineProbe:
    """Find the engine and ping it."""
    try:
        endpoint = find(environ)
    except LookupError as error:
        problem = Problem(str(error), hint="`docker context ls` lists those that exist")
        return EngineProbe(Endpoint("", "context"), problem=problem)
    if endpoint.scheme in ("ssh", "npipe"):
        return EngineProbe(endpoint)
    try:
        return EngineProbe(endpoint, api_version=_ping(endpoint))
    except (OSError, ValueError, http.client.HTTPException) as error:
        hint = JOIN_GROUP if isinstance(error, PermissionError) else START_IT
        return EngineProbe(
            endpoint, problem=Problem(_cause(error, endpoint), hint=hint)
        )


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
        settings = json.loads(files.read(folder / "config.json", MOST_BYTES))
    except (OSError, ValueError):
        return ""
    return str(settings.get("currentContext") or "")


def _from_context(name: str, folder: Path) -> Endpoint:
    key = hashlib.sha256(name.encode()).hexdigest()
    meta = folder / "contexts" / "meta" / key / "meta.json"
    try:
        docker = json.loads(files.read(meta, MOST_BYTES))["Endpoints"]["docker"]
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
        response = connection.getresponse()
        version = response.getheader("Api-Version") or ""
        if response.status != http.client.OK or not version:
            raise ValueError(f"HTTP status {response.status}, not a Docker Engine")
        return version
    finally:
        connection.close()


def _cause(error: Exception, endpoint: Endpoint) -> str:
    if isinstance(error, FileNotFoundError):
        return f"no Docker Engine listens at {endpoint}: the socket does not exist"
    if isinstance(error, PermissionError):
        return f"you may not open the engine's socket, {endpoint}"
    return f"no Docker Engine answers at {endpoint}: {error}"
