"""A server's HTTP interface, as functions with typed values.

Errors are those of ``remote.problems``. All but ``login`` may be repeated, and are for
as long as the client's patience lasts, where the server is not reached.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

import msgspec

from runner import __version__
from runner.core import Problem, Reason
from runner.remote import downloading
from runner.remote.connection import Body, BodyStream, HttpAnswer, ServerConnection
from runner.remote.problems import (
    MISSING,
    NO_TOKEN,
    LoginNeededError,
    NoServerError,
    UnreachableError,
    refused,
    shown,
)
from runner.remote.retrying import NONE, Patience, until_reached
from runner.wire import API, JSON, UPLOAD_OFFSET
from runner.wire.accounts import LoginAnswer, LoginRequest, Me, ServerFacts
from runner.wire.frames import BEAT_S
from runner.wire.refusals import Refusal
from runner.wire.remote_runs import QueueView, RemoteRun, RunPage, RunRequest
from runner.wire.uploads import UploadRequest, UploadState

if TYPE_CHECKING:
    from runner.remote.entries import ProfileEntry

_T = TypeVar("_T")

WHOLE = "X-Rai-Whole"
BYTES = "application/octet-stream"
_ARCHIVES = {"build.tar.zst": "build", "source.tar.zst": "source"}
AWAY = (500, 502, 503, 504)
"""What stands before a server may answer so; a server itself says why."""


_BY_STATUS = {NO_TOKEN: Reason.NOT_ALLOWED, MISSING: Reason.USAGE}

SILENT_S = 3 * BEAT_S
"""A followed run that is silent for so long is taken as broken off."""

PASSING = (408, 503)
"""What a server answers for a moment: it stops, or a part of it is away.

Where it lasts longer the answer says when to ask again, and is an error.
"""


class ServerClient:
    """One server, asked as the person whose token it is.

    It may be used as a context, which closes its connections.
    """

    def __init__(self, entry: ProfileEntry, patience: Patience = NONE) -> None:
        self.entry, self.patience = entry, patience
        self._connection = ServerConnection(entry.url, entry.token, entry.fingerprint)

    def __enter__(self) -> ServerClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def facts(self) -> ServerFacts:
        """Return what the server says to everybody.

        Raises:
            NoServerError: it is no server of rai, or serves newer clients only.
        """
        found = self._call("GET", "/", ServerFacts)
        if _number(found.least_client) > _number(__version__):
            text = (
                f"{self.entry.url} runs rai {shown(found.version)} and serves clients"
                f" from {shown(found.least_client)} on; this is rai {__version__}"
            )
            hint = "upgrade it: `pip install --upgrade .` in a newer clone of rai"
            raise NoServerError(Problem(text, hint=hint))
        return found

    def login(self, code: str, device: str) -> LoginAnswer:
        """Exchange a code, which is good once, for a token; it is not repeated."""
        body = msgspec.json.encode(LoginRequest(code, device))
        return self._decoded(self._asked("POST", "/login", body), LoginAnswer)

    def me(self) -> Me:
        """Return whose the token is."""
        self._need_token()
        return self._call("GET", "/me", Me)

    def revoke(self, token_id: str = "current") -> None:
        """End a token of one's own, by default the one in use."""
        self._need_token()
        self._again(lambda: self._asked("DELETE", f"/tokens/{quote(token_id, '')}"))

    def reserve(self, request: UploadRequest) -> UploadState:
        """Announce an upload; the same file has the same one."""
        self._need_token()
        return self._call("POST", "/uploads", UploadState, msgspec.json.encode(request))

    def upload_state(self, upload: str) -> tuple[int, bool]:
        """Return how many bytes of an upload the server has, and if it is whole."""
        path = f"/uploads/{quote(upload, '')}"
        answer = self._again(lambda: self._asked("HEAD", path))
        offset = answer.headers.get(UPLOAD_OFFSET, "")
        if not _is_number(offset):
            raise self._no_server(f"its {UPLOAD_OFFSET} is {shown(offset)!r}")
        return int(offset), answer.headers.get(WHOLE) == "1"

    def send(self, upload: str, piece: Body, offset: int) -> UploadState:
        """Send a piece of an upload that begins at an offset; it is not repeated.

        Raises:
            RefusedError: with the status 409 the server has another offset.
        """
        path = f"/uploads/{quote(upload, '')}"
        headers = {UPLOAD_OFFSET: str(offset), "Content-Type": BYTES}
        answer = self._asked("PATCH", path, piece, headers)
        return self._decoded(answer, UploadState)

    def put_run(self, run: str, request: RunRequest) -> RemoteRun:
        """Queue a run under an id of one's own; the same request again is the same."""
        self._need_token()
        body = msgspec.json.encode(request)
        return self._call("PUT", f"/runs/{quote(run, '')}", RemoteRun, body)

    def run(self, run: str) -> RemoteRun:
        """Return where a run stands."""
        self._need_token()
        return self._call("GET", f"/runs/{quote(run, '')}", RemoteRun)

    def runs(self, state: str = "", after: str = "", limit: int = 100) -> RunPage:
        """Return a page of the team's runs."""
        self._need_token()
        given = {"state": state, "after": after, "limit": str(limit)}
        query = {name: value for name, value in given.items() if value}
        return self._call("GET", "/runs", RunPage, query=query)

    def cancel(self, run: str) -> RemoteRun:
        """Ask a run to end."""
        self._need_token()
        return self._call("DELETE", f"/runs/{quote(run, '')}", RemoteRun)

    def queue(self) -> QueueView:
        """Return what runs and what waits."""
        self._need_token()
        return self._call("GET", "/queue", QueueView)

    @contextmanager
    def follow(self, run: str, have: Mapping[str, int]) -> Iterator[BodyStream]:
        """Yield the frames of a run as they come, from where one's files end.

        ``have`` has the bytes of each file, by its name or without its suffix. A break
        raises UnreachableError from a read; nothing is repeated.
        """
        self._need_token()
        query = {name.partition(".")[0]: str(size) for name, size in have.items()}
        path = f"{API}/runs/{quote(run, '')}/follow"
        with self._connection.stream(path, query=query, read_s=SILENT_S) as (
            answer,
            body,
        ):
            self._raise_refusal(answer)
            yield body

    def download(self, run: str, name: str, path: Path, most_bytes: int) -> int:
        """Fetch a file of a run; return its size.

        What came of it before is kept beside the path, and fetched from there on. A
        file that a run appends to is had as it was when its end was reached.

        Raises:
            RefusedError: there is none.
            NoServerError: it is over ``most_bytes``.
        """
        self._need_token()
        under = _ARCHIVES.get(name) or f"files/{quote(name, '')}"
        source = f"{API}/runs/{quote(run, '')}/{under}"

        @contextmanager
        def opened(
            headers: Mapping[str, str],
        ) -> Iterator[tuple[HttpAnswer, BodyStream]]:
            with self._connection.stream(source, headers=headers) as (answer, body):
                if answer.status != downloading.NO_SUCH_RANGE:
                    self._raise_refusal(answer)
                yield answer, body

        url = self.entry.url
        return downloading.fetch(opened, path, most_bytes, url, self.patience)

    def _need_token(self) -> None:
        if not self.entry.token:
            text = f"you are not logged in at {self.entry.url}"
            raise LoginNeededError(self.entry.url, text)

    def _call(
        self,
        method: str,
        path: str,
        kind: type[_T],
        body: bytes | None = None,
        query: Mapping[str, str] | None = None,
    ) -> _T:
        return self._decoded(
            self._again(lambda: self._asked(method, path, body, query=query)), kind
        )

    def _asked(
        self,
        method: str,
        path: str,
        body: Body | None = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> HttpAnswer:
        """Return the answer to one request; raise the error of a refusal."""
        sent = {"Content-Type": JSON, **(headers or {})} if body is not None else {}
        answer = self._connection.ask(
            method, f"{API}{path}", query=query, headers=sent, body=body
        )
        self._raise_refusal(answer)
        return answer

    def _again(self, call: Callable[[], _T]) -> _T:
        return until_reached(call, self.patience)

    def _decoded(self, answer: HttpAnswer, kind: type[_T]) -> _T:
        try:
            return msgspec.json.decode(answer.body, type=kind)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise self._no_server(str(error)) from error

    def _raise_refusal(self, answer: HttpAnswer) -> None:
        if answer.status < 400:
            return
        refusal = _refusal(answer)
        if refusal is None:
            if answer.status in AWAY:
                text = f"{self.entry.url} cannot serve now ({answer.status})"
                raise UnreachableError(text)
            raise self._no_server(f"it answers {answer.status}")
        # The status that was sent counts, not the one that it is said to be.
        refusal = msgspec.structs.replace(refusal, status=answer.status)
        error = refused(refusal, self.entry.url, time.time())
        if answer.status in PASSING and refusal.retry_at is None:
            raise UnreachableError(*error.problems)
        raise error

    def _no_server(self, why: str) -> NoServerError:
        text = f"{self.entry.url} does not answer as a server of rai does"
        hint = "check the address; it may be of another version"
        return NoServerError(Problem(f"{text}: {shown(why)}", hint=hint))


def _refusal(answer: HttpAnswer) -> Refusal | None:
    """Return the refusal that an answer is; None if it is no server's.

    A newer server may have reasons that this client does not know. An answer to HEAD
    has no body.
    """
    if not answer.body:
        reason = _BY_STATUS.get(answer.status)
        return None if reason is None else Refusal(answer.status, "", reason)
    with suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
        return msgspec.json.decode(answer.body, type=Refusal)
    with suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
        said = msgspec.json.decode(answer.body, type=_Titled)
        reason = Reason.INTERNAL if answer.status >= 500 else Reason.NOT_ALLOWED
        return Refusal(answer.status, said.title, reason)
    return None


class _Titled(msgspec.Struct):
    """What every refusal has, of whatever version."""

    title: str


def _number(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with, for comparison."""
    found = re.match(r"\d{1,9}(?:\.\d{1,9}){0,3}", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19
