"""A server's HTTP interface, as functions with typed values.

Errors are those of ``remote.problems``. All but ``login`` may be repeated, and are for
as long as the client's patience lasts, where the server is not reached.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from runner import __version__, files
from runner.core import Problem, Reason, RunRequest
from runner.core.request import to_json
from runner.remote.connection import (
    PIECE_BYTES,
    Body,
    BodyStream,
    HttpAnswer,
    ServerConnection,
)
from runner.remote.problems import (
    LoginNeededError,
    NoServerError,
    RefusedError,
    UnreachableError,
    refused,
    shown,
)
from runner.store.scratch import locked
from runner.wire import API, JSON
from runner.wire.accounts import (
    LoginAnswer,
    LoginCode,
    LoginRequest,
    Me,
    ServerFacts,
)
from runner.wire.refusals import Refusal
from runner.wire.remote_runs import (
    DrainRequest,
    QueueView,
    RemoteRun,
    RunPage,
)

if TYPE_CHECKING:
    from runner.remote.profile import ProfileEntry

_T = TypeVar("_T")

BYTES = "application/octet-stream"
_ARCHIVES = {"build.tar.zst": "build", "source.tar.zst": "source"}
AWAY = (500, 502, 503, 504)
"""What stands before a server may answer so; a server itself says why."""

GATEWAY = (502, 504)
"""What a proxy answers while the server behind it is away."""

PASSING = (408, 503)
"""What a server answers for a moment: it stops, or a part of it is away.

Where it lasts longer the answer says when to ask again, and is an error.
"""


FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 5.0
"""Between two attempts to reach a server."""

PARTIAL, NO_SUCH_RANGE = 206, 416
_LENGTH = re.compile(r"\d{1,18}")
_RANGE = re.compile(r"bytes (?:(\d{1,18})-\d{1,18}|\*)/(\d{1,18})")


class Patience(Struct, frozen=True):
    """How long to ask again after a server was not reached, and who is told why.

    While a laptop sleeps no time passes.
    """

    seconds: float = 0.0
    told: Callable[[UnreachableError], None] | None = None


NONE = Patience()


class Backoff:
    """Pauses that grow from attempt to attempt."""

    def __init__(self) -> None:
        self._pause_s = FIRST_PAUSE_S

    def restart(self) -> None:
        """Begin anew with the shortest pause."""
        self._pause_s = FIRST_PAUSE_S

    def next_s(self) -> float:
        """Return how long to pause now, and let the next pause be longer."""
        # So that many clients do not come back in the same moment.
        pause_s = self._pause_s * random.uniform(0.5, 1.0)
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        return pause_s


class Pauses:
    """The pauses between attempts, up to the end of one's patience."""

    def __init__(self, patience: Patience) -> None:
        self._patience, self._backoff = patience, Backoff()
        self.restart()

    def restart(self) -> None:
        """Note that something got on: patience and pauses begin anew."""
        self._by = time.monotonic() + self._patience.seconds
        self._backoff.restart()

    def wait(self, error: UnreachableError) -> None:
        """Pause after an error; raise it if it is the last one."""
        left = self._by - time.monotonic()
        if left <= 0:
            raise error
        if self._patience.told is not None:
            self._patience.told(error)
        time.sleep(min(self._backoff.next_s(), left))


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

    def another(self) -> LoginCode:
        """Return a code for another login of the same person."""
        self._need_token()
        return self._call("POST", "/codes", LoginCode)

    def me(self) -> Me:
        """Return whose the token is."""
        self._need_token()
        return self._call("GET", "/me", Me)

    def revoke(self, token_id: str = "current") -> None:
        """End a token of one's own, by default the one in use."""
        self._need_token()
        self._again(lambda: self._asked("DELETE", f"/tokens/{quote(token_id, '')}"))

    def has_upload(self, sha256: str, size: int) -> bool:
        """Return whether the server has a file; it says here why it takes none."""
        self._need_token()
        path, query = f"/uploads/{sha256}", {"size": str(size)}
        try:
            self._again(lambda: self._asked("GET", path, query=query))
        except RefusedError as error:
            if error.missing:
                return False
            raise
        return True

    def put_upload(self, sha256: str, file: Body) -> None:
        """Send a whole file; it is not repeated."""
        self._asked("PUT", f"/uploads/{sha256}", file, {"Content-Type": BYTES})

    def put_run(self, run: str, request: RunRequest) -> RemoteRun:
        """Queue a run under an id of one's own; the same request again is the same."""
        self._need_token()
        body = to_json(request)
        return self._call("PUT", f"/runs/{quote(run, '')}", RemoteRun, body)

    def run(self, run: str) -> RemoteRun:
        """Return where a run stands."""
        self._need_token()
        return self._call("GET", f"/runs/{quote(run, '')}", RemoteRun)

    def runs(
        self,
        state: str = "",
        after: str = "",
        limit: int = 100,
        *,
        everyone: bool = False,
    ) -> RunPage:
        """Return a page of the team's runs, or of those of ``everyone`` for staff."""
        self._need_token()
        given = {"state": state, "after": after, "limit": str(limit)}
        given["all"] = "1" if everyone else ""
        query = {name: value for name, value in given.items() if value}
        return self._call("GET", "/runs", RunPage, query=query)

    def parcel(self, run: str) -> bytes:
        """Return the text of a run's parcel."""
        self._need_token()
        path = f"/runs/{quote(run, '')}/files/parcel.json"
        return self._again(lambda: self._asked("GET", path)).body

    def cancel(self, run: str) -> RemoteRun:
        """Ask a run to end."""
        self._need_token()
        return self._call("DELETE", f"/runs/{quote(run, '')}", RemoteRun)

    def queue(self) -> QueueView:
        """Return what runs and what waits."""
        self._need_token()
        return self._call("GET", "/queue", QueueView)

    def drain(self, why: str) -> QueueView:
        """Start no more runs, for this reason; "" starts them again. For staff."""
        self._need_token()
        body = msgspec.json.encode(DrainRequest(why))
        return self._call("PUT", "/queue/drain", QueueView, body)

    @contextmanager
    def tail(
        self, run: str, have: Mapping[str, int], wait_s: int
    ) -> Iterator[BodyStream]:
        """Yield what is new of a run, as ``wire.tail`` says; nothing is repeated.

        ``have`` has the bytes of each file by its name. The server waits for news for
        at most ``wait_s``. A break raises UnreachableError from a read.
        """
        self._need_token()
        query = {name.partition(".")[0]: str(size) for name, size in have.items()}
        query["wait"] = str(wait_s)
        path = f"{API}/runs/{quote(run, '')}/tail"
        opened = self._connection.stream(path, query=query, wait_s=wait_s)
        with opened as (answer, body):
            self._raise_refusal(answer)
            yield body

    def download(self, run: str, name: str, path: Path, most_bytes: int) -> int:
        """Fetch an archive of a run, unless it is here by now; return its size.

        What came of it before is kept beside the path, and fetched from there on; one
        process at a time does so.

        Raises:
            RefusedError: there is none.
            NoServerError: it is over ``most_bytes``.
        """
        self._need_token()
        source = f"{API}/runs/{quote(run, '')}/{_ARCHIVES[name]}"
        with locked(path.parent):
            if not path.exists():
                part = files.aside(path)
                self._fetch(source, part, most_bytes)
                part.replace(path)
        return path.stat().st_size

    def _fetch(self, source: str, part: Path, most_bytes: int) -> None:
        pauses = Pauses(self.patience)
        while True:
            have = part.stat().st_size if part.exists() else 0
            headers = {"Range": f"bytes={have}-"} if have else {}
            try:
                opened = self._connection.stream(source, headers=headers)
                with opened as (answer, body):
                    if answer.status != NO_SUCH_RANGE:
                        self._raise_refusal(answer)
                    if self._take(answer, body, part, have, most_bytes):
                        break
            except UnreachableError as error:
                if part.exists() and part.stat().st_size > have:
                    pauses.restart()
                pauses.wait(error)

    def _take(
        self,
        answer: HttpAnswer,
        body: BodyStream,
        part: Path,
        have: int,
        most_bytes: int,
    ) -> bool:
        """Write what comes; return False if it has to be asked for from the start."""
        url = self.entry.url
        found = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        if answer.status == NO_SUCH_RANGE:
            if found and int(found[2]) == have:
                return True
            if not have:
                raise NoServerError(f"{url} has no beginning of {part.name}")
            part.unlink()
            return False
        at = have if answer.status == PARTIAL else 0
        if answer.status == PARTIAL and not (
            found and found[1] and int(found[1]) == at
        ):
            raise NoServerError(f"{url} sends another part of a file than asked for")
        length = _LENGTH.fullmatch(answer.headers.get("Content-Length", ""))
        whole = at + int(length[0]) if length else at
        too_large = whole > most_bytes
        with part.open("r+b" if have else "wb") as file:
            file.truncate(at)
            file.seek(at)
            while not too_large and (piece := body.read1(PIECE_BYTES)):
                file.write(piece)
                at += len(piece)
                too_large = at > most_bytes
        if too_large:
            part.unlink()
            raise NoServerError(f"{url} sends over {most_bytes:,} bytes of a file")
        if at < whole:
            raise UnreachableError(f"{url} broke off in the middle of a file")
        return True

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
        """Return what a call returns; repeat it where the server is not reached."""
        pauses = Pauses(self.patience)
        while True:
            try:
                return call()
            except UnreachableError as error:
                pauses.wait(error)

    def _decoded(self, answer: HttpAnswer, kind: type[_T]) -> _T:
        try:
            return msgspec.json.decode(answer.body, type=kind)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise self._no_server(str(error)) from error

    def _raise_refusal(self, answer: HttpAnswer) -> None:
        if answer.status < 400:
            return
        refusal = None if answer.status in GATEWAY else _refusal(answer)
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

    A newer server may have reasons that this client does not know.
    """
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
