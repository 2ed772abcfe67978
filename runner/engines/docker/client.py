"""The SDK's client for one engine, and its errors as EngineError."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import docker
import requests
from docker.tls import TLSConfig
from docker.types import CancellableStream, Mount

from runner.core import Problem, Reason
from runner.core.errors import EngineError
from runner.engines.docker.endpoint import API_TIMEOUT_S, Endpoint, EngineProbe

CONFLICT = 409
"""The status of an answer where a name, or what is to be removed, is in use."""

APIError = docker.errors.APIError
NotFound = docker.errors.NotFound
SSH_HINT = "forward its socket by `ssh -N -L`, as docs/images.md shows, which is faster"

SILENT_S = 60.0
"""How long an engine may be silent before it is asked whether it still answers."""

REMOVE_AGAIN_S = (0.1, 0.5)
"""The pauses before something is removed again."""

MOST_ANSWERED_BYTES = 16 << 20
"""The most bytes of one answer, which may quote what images say of themselves."""

PIECE_BYTES = 1 << 16

Client = docker.APIClient


class UnusableError(docker.errors.DockerException):
    """A program of the image does not work as it should."""


FAILURES = (docker.errors.DockerException, requests.RequestException)
"""Every exception that a call to the engine may raise."""


def connect(probe: EngineProbe, timeout_s: float | None = API_TIMEOUT_S) -> Client:
    """Return a client for an engine; ``timeout_s`` None means no time-out."""
    endpoint = probe.endpoint
    with failing(f"connect to {endpoint}", Reason.NO_ENGINE):
        client = Client(
            base_url=endpoint.url,
            version=probe.api_version or "auto",
            # Fractions and None work too, though the stubs say int.
            timeout=timeout_s,  # type: ignore[arg-type]
            tls=_tls(endpoint),
            # The system's ssh is far faster than paramiko, the SDK's default.
            use_ssh_client=True,
        )
    client.hooks["response"].append(_bounded)
    if endpoint.certificates is not None:
        # Else REQUESTS_CA_BUNDLE would replace the engine's own certificates.
        client.trust_env = False
    return client


def _bounded(
    response: requests.Response, *_: object, stream: bool = False, **__: object
) -> None:
    """Read an answer that is no stream, and refuse one that is too large."""
    if stream:
        return
    answer = bytearray()
    for piece in response.iter_content(PIECE_BYTES):
        answer += piece
        if len(answer) > MOST_ANSWERED_BYTES:
            response.close()
            text = f"the Docker Engine answers with over {MOST_ANSWERED_BYTES:,} bytes"
            raise docker.errors.DockerException(text)
    response._content = bytes(answer)  # where requests itself would keep it


@contextlib.contextmanager
def failing(doing: str, reason: Reason = Reason.INTERNAL) -> Iterator[None]:
    """Raise EngineError "the Docker Engine failed to DOING" for the SDK's errors.

    An engine that goes away in the middle is no bug: its reason is RUNNER_LOST.
    """
    try:
        yield
    except FAILURES as error:
        if reason is Reason.INTERNAL and isinstance(error, _WENT_AWAY):
            raise EngineError(_lost(doing, error), reason=Reason.RUNNER_LOST) from error
        if problem := full(error):
            raise EngineError(problem) from error
        text = f"the Docker Engine failed to {doing}: {explained(error)}"
        hint = SSH_HINT if "paramiko" in text else ""
        raise EngineError(Problem(text, hint=hint), reason=reason) from error


def removed(remove: Callable[[str], object], name: str) -> bool:
    """Remove something by its name; return whether it is gone.

    An engine that fails is asked again, since a call may fail that only follows others.
    """
    for pause in (*REMOVE_AGAIN_S, None):
        try:
            remove(name)
        except NotFound:
            return True
        except requests.Timeout:
            return False
        except FAILURES:
            if pause is None:
                return False
            time.sleep(pause)
        else:
            return True
    return False


def remove_container(client: Client, name: str) -> None:
    """Kill and remove a container with its anonymous volumes, as far as that works."""
    removed(partial(client.remove_container, force=True, v=True), name)


def make_idle(
    client: Client,
    image: str,
    name: str,
    labels: Mapping[str, str],
    mounts: Sequence[Mount] = (),
) -> str:
    """Create a container that is never started; return its id."""
    host = client.create_host_config(mounts=list(mounts), network_mode="none")
    made = client.create_container(
        image,
        name=name,
        entrypoint=["/never-started"],
        labels=dict(labels),
        host_config=host,
    )
    return str(made["Id"])


def seconds(text: str) -> float:
    """Return a time that the engine wrote, in seconds since 1970."""
    # Python 3.11 reads up to six digits of a second.
    return datetime.fromisoformat(re.sub(r"(\.\d{1,6})\d*", r"\1", text)).timestamp()


def went_away(error: EngineError) -> bool:
    """Whether the error says that the engine itself no longer answers."""
    return isinstance(error.__cause__, _WENT_AWAY)


_WENT_AWAY = (
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,
)


def _lost(doing: str, error: Exception) -> Problem:
    if isinstance(error, requests.ReadTimeout):
        why = "no longer answers"
    else:
        why = "ended, or the connection to it broke"
    text = f"the Docker Engine {why}; rai asked it to {doing}"
    return Problem(text, hint="`docker info` shows whether it runs")


def explained(error: Exception) -> str:
    """Return the engine's own message, without the SDK's wrapping."""
    text = getattr(error, "explanation", None) or error
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    return str(text).strip() or type(error).__name__


def full(error: Exception | str) -> Problem | None:
    """Return the problem if an engine's words say that its disk is full."""
    text = explained(error) if isinstance(error, Exception) else error
    if "no space left on device" not in text:
        return None
    hint = "`docker info` names its folder (Docker Root Dir), `docker system df` what"
    return Problem(
        f"the disk of the Docker Engine is full: {text}", hint=f"{hint} takes the space"
    )


def image(client: Client, name: str) -> dict[str, Any]:
    """Return what the engine knows of an image; raise NotFound if it has none."""
    found: dict[str, Any] = client.inspect_image(name)  # type: ignore[no-untyped-call]
    return found


class Pulse:
    """A look at whether the engine still answers, while nothing else is heard of it."""

    def __init__(self, client: Client) -> None:
        self._client, self._heard_s = client, time.monotonic()

    def heard(self) -> None:
        """Note that the engine has just done something."""
        self._heard_s = time.monotonic()

    def check(self) -> None:
        """Ask the engine, if it was silent for long; raise one of FAILURES if in vain.

        It may be silent for hours over what it does.
        """
        if time.monotonic() - self._heard_s > SILENT_S:
            self._client.ping()
            self.heard()

    def close(self) -> None:
        """Close the connection, if it is of this look's own."""
        self._client.close()


def pulse(probe: EngineProbe) -> Pulse:
    """Return a look at an engine by a connection of its own."""
    return Pulse(connect(probe, SILENT_S))


def capture(client: Client) -> list[requests.Response]:
    """Return a list that collects a client's responses, for ``hang_up``."""
    responses: list[requests.Response] = []

    def keep(response: requests.Response, *_: object, **__: object) -> None:
        responses.append(response)

    client.hooks["response"].append(keep)
    return responses


def hang_up(response: requests.Response) -> None:
    """Close a response's connection, which ends every read from it."""
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
