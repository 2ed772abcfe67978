"""The SDK's client for one engine, and its errors in our words."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import docker
import requests
from docker.tls import TLSConfig
from docker.types import CancellableStream

from runner.core import Problem, Reason
from runner.core.errors import EngineError
from runner.engines.docker.endpoint import API_TIMEOUT_S, Answer, Endpoint

APIError = docker.errors.APIError
NotFound = docker.errors.NotFound
SSH_HINT = "forward its socket by `ssh -N -L`, as docs/docker.md shows, which is faster"

Client = docker.APIClient


class UnusableError(docker.errors.DockerException):
    """A program of the image did not answer as that program does."""


FAILURES = (docker.errors.DockerException, requests.RequestException)
"""All that a call to the engine may raise."""


def connect(answer: Answer, timeout_s: float | None = API_TIMEOUT_S) -> Client:
    """Make a client for the engine that answered; None lets its calls take forever."""
    endpoint = answer.endpoint
    with failing(f"connect to {endpoint}", Reason.NO_ENGINE):
        client = Client(
            base_url=endpoint.url,
            version=answer.api_version or "auto",
            # Fractions and None serve as well, whatever its types say.
            timeout=timeout_s,  # type: ignore[arg-type]
            tls=_tls(endpoint),
            # The system's own ssh: the SDK's replacement is slower by far.
            use_ssh_client=True,
        )
    if endpoint.certificates is not None:
        # A REQUESTS_CA_BUNDLE in the environment would replace the engine's own.
        client.trust_env = False
    return client


@contextlib.contextmanager
def failing(doing: str, reason: Reason = Reason.INTERNAL) -> Iterator[None]:
    """Turn what the SDK raises into an EngineError that says what was being done."""
    try:
        yield
    except FAILURES as error:
        text = f"the Docker Engine failed to {doing}: {explained(error)}"
        hint = SSH_HINT if "paramiko" in text else ""
        raise EngineError(Problem(text, hint=hint), reason=reason) from error


def explained(error: Exception) -> str:
    """Give the engine's own sentence, without the SDK's wrapping."""
    said = getattr(error, "explanation", None) or error
    if isinstance(said, bytes):
        said = said.decode(errors="replace")
    return str(said).strip() or type(error).__name__


def image(client: Client, name: str) -> dict[str, Any]:
    """Look an image up; NotFound where it is not there."""
    found: dict[str, Any] = client.inspect_image(name)  # type: ignore[no-untyped-call]
    return found


def capture(client: Client) -> list[requests.Response]:
    """Collect every later response of a client, so that it can be hung up."""
    responses: list[requests.Response] = []

    def keep(response: requests.Response, *_: object, **__: object) -> None:
        responses.append(response)

    client.hooks["response"].append(keep)
    return responses


def hang_up(response: requests.Response) -> None:
    """Close a response's connection, so that whoever reads from it comes to an end."""
    with contextlib.suppress(OSError, AttributeError, *FAILURES):
        CancellableStream(iter(()), response).close()


def _tls(endpoint: Endpoint) -> TLSConfig | bool:
    folder = endpoint.certificates
    if folder is None:
        return endpoint.scheme == "https"
    pair = (str(folder / "cert.pem"), str(folder / "key.pem"))
    authority = folder / "ca.pem"
    return TLSConfig(
        client_cert=pair if (folder / "cert.pem").exists() else None,
        ca_cert=str(authority) if authority.exists() else None,
        verify=endpoint.verify,
    )
