"""A server's HTTP interface, as functions with typed values.

Errors are those of ``client.problems``. All but ``login`` may be repeated, and are for
as long as the client's patience lasts, where the server is not reached.
"""

from __future__ import annotations

import io
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
from msgspec.structs import replace

from runner import __version__
from runner.client import bounds
from runner.client.connection import (
    PIECE_BYTES,
    HttpAnswer,
    HttpRequest,
    ServerConnection,
)
from runner.client.problems import (
    LoginNeededError,
    NoServerError,
    RefusedError,
    UnreachableError,
    refused,
    shown,
)
from runner.core import Problem, Reason, RunRequest, wire
from runner.core.errors import RaiError
from runner.core.request import to_json
from runner.core.wire import (
    API,
    JSON,
    Me,
    MilestonePage,
    QueueView,
    Refusal,
    RemoteRun,
    RunPage,
    StandingsPage,
    Submission,
    SubmissionPage,
    SubmissionRequest,
)
from runner.store.removal import locked
from runner.system import files

if TYPE_CHECKING:
    from runner.client.profile import ProfileEntry

_T = TypeVar("_T")
_UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""What reading an answer may raise."""

BYTES = "application/octet-stream"
_SUBMISSION = {"submission": "1"}
_ARCHIVES = {"build.tar.zst": "build", "source.tar.zst": "source"}
PASSING = (408, 502, 503, 504)
"""What a server, or what stands before it, answers for a moment.

Where it lasts longer a server says when to ask again, and that is an error.
"""

FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 5.0
"""Between two attempts to reach a server."""

OK, PARTIAL, NO_SUCH_RANGE = 200, 206, 416
PUBLIC = ("/", "/login")
"""What a client asks without a token."""


class Patience(Struct, frozen=True):
    """How long to ask again after a server was not reached, and what is told why.

    While a laptop sleeps no time passes.
    """

    seconds: float = 0.0
    notify: Callable[[UnreachableError], None] | None = None


NONE = Patience()


class Pauses:
    """The pauses between attempts to reach a server, up to the end of one's patience.

    They grow from attempt to attempt.
    """

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self.restart()

    def restart(self) -> None:
        """Note that something got on: patience and pauses begin anew."""
        self._by = time.monotonic() + self._patience.seconds
        self._pause_s = FIRST_PAUSE_S

    def next_s(self, error: UnreachableError) -> float:
        """Return how long to pause after an error; raise it if it is the last one."""
        left = self._by - time.monotonic()
        if left <= 0:
            raise error
        if self._patience.notify is not None:
            self._patience.notify(error)
        # So that many clients do not come back in the same moment.
        pause_s = self._pause_s * random.uniform(0.5, 1.0)
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        return min(pause_s, left)

    def wait(self, error: UnreachableError) -> None:
        """Pause after an error; raise it if it is the last one."""
        time.sleep(self.next_s(error))


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

    def facts(self) -> wire.ServerFacts:
        """Return what the server says to everybody.

        Raises:
            NoServerError: it is no server of rai, or serves newer clients only.
        """
        found = self._ask(wire.ServerFacts, "GET", "/")
        if _number(found.least_client) > _number(__version__):
            text = (
                f"{self.entry.url} runs rai {shown(found.version)} and serves clients"
                f" from {shown(found.least_client)} on; this is rai {__version__}"
            )
            hint = "upgrade it: `pip install --upgrade .` in a newer clone of rai"
            raise NoServerError(Problem(text, hint=hint))
        return found

    def login(self, code: str, device: str) -> wire.LoginAnswer:
        """Exchange a code, which is good once, for a token; it is not repeated."""
        body = msgspec.json.encode(wire.LoginRequest(code, device))
        return self._ask(wire.LoginAnswer, "POST", "/login", body, once=True)

    def another(self) -> wire.LoginCode:
        """Return a code for another login of the same person."""
        return self._ask(wire.LoginCode, "POST", "/codes")

    def me(self) -> Me:
        """Return whose the token is."""
        return self._ask(Me, "GET", "/me")

    def revoke(self) -> None:
        """End the token in use."""
        self._asked("DELETE", "/tokens/current")

    def has_upload(self, sha256: str, size: int, *, submission: bool = False) -> bool:
        """Return whether the server has a file; it says here why it takes none."""
        query = {"size": str(size)} | (_SUBMISSION if submission else {})
        try:
            self._asked("GET", f"/uploads/{sha256}", query=query)
        except RefusedError as error:
            if error.missing:
                return False
            raise
        return True

    def put_upload(
        self, sha256: str, file: io.FileIO, *, submission: bool = False
    ) -> None:
        """Send a whole file; it is not repeated."""
        query = _SUBMISSION if submission else {}
        self._asked("PUT", f"/uploads/{sha256}", file, query, once=True)

    def milestones(self) -> MilestonePage:
        """Return the server's milestones, and what the team did for each."""
        return self._ask(MilestonePage, "GET", "/milestones")

    def milestone_file(self, name: str) -> bytes:
        """Return the text of a milestone's file."""
        return self._asked("GET", f"/milestones/{quote(name, '')}")

    def put_submission(self, key: str, asked: SubmissionRequest) -> Submission:
        """Submit an upload under a key of one's own; it is one under each key."""
        path, body = f"/submissions/{quote(key, '')}", msgspec.json.encode(asked)
        return self._ask(Submission, "PUT", path, body)

    def submission(self, number: int) -> Submission:
        """Return a submission as it is now."""
        return self._ask(Submission, "GET", f"/submissions/{number}")

    def submissions(self, milestone: str, *, everyone: bool) -> SubmissionPage:
        """Return the team's, or those of ``everyone`` for staff; "" for all."""
        query = {"milestone": milestone} | ({"all": "1"} if everyone else {})
        return self._ask(SubmissionPage, "GET", "/submissions", query=query)

    def choose(self, number: int) -> Submission:
        """Have a submission be the one that counts of its milestone."""
        return self._ask(Submission, "PUT", f"/submissions/{number}/chosen")

    def standings(self, milestone: str) -> StandingsPage:
        """Return the leaderboards of a milestone."""
        return self._ask(StandingsPage, "GET", f"/standings/{quote(milestone, '')}")

    def put_run(self, run: str, request: RunRequest) -> RemoteRun:
        """Queue a run under an id of one's own; the same request again is the same."""
        return self._ask(RemoteRun, "PUT", _path(run), to_json(request))

    def run(self, run: str) -> RemoteRun:
        """Return where a run stands."""
        return self._ask(RemoteRun, "GET", _path(run))

    def runs(self, after: str = "", *, everyone: bool = False) -> RunPage:
        """Return a page of the team's runs, or of those of ``everyone`` for staff."""
        given = {"after": after, "limit": "100", "all": "1" if everyone else ""}
        query = {name: value for name, value in given.items() if value}
        return self._ask(RunPage, "GET", "/runs", query=query)

    def parcel(self, run: str) -> bytes:
        """Return the text of a run's parcel."""
        return self._asked("GET", f"{_path(run)}/files/parcel.json")

    def cancel(self, run: str) -> RemoteRun:
        """Ask a run to end."""
        return self._ask(RemoteRun, "DELETE", _path(run))

    def queue(self) -> QueueView:
        """Return what runs and what waits."""
        return self._ask(QueueView, "GET", "/queue")

    def drain(self, why: str) -> QueueView:
        """Start no more runs, for this reason; "" starts them again. For staff."""
        body = msgspec.json.encode(wire.DrainRequest(why))
        return self._ask(QueueView, "PUT", "/queue/drain", body)

    @contextmanager
    def tail(
        self, run: str, have: Mapping[str, int], wait_s: int
    ) -> Iterator[io.BufferedReader]:
        """Yield what is new of a run, as ``wire.tail`` says; nothing is repeated.

        ``have`` has the bytes of each file by its name. The server waits for news for
        at most ``wait_s``. A break raises UnreachableError from a read.
        """
        query = {name.partition(".")[0]: str(size) for name, size in have.items()}
        query["wait"] = str(wait_s)
        request = HttpRequest("GET", f"{_path(run)}/tail", query=query, wait_s=wait_s)
        with self._sent(request) as answer:
            yield answer.body

    def download(self, run: str, name: str, path: Path, most_bytes: int) -> int:
        """Fetch an archive of a run, unless it is here by now; return its size.

        What came of it before is kept beside the path, and fetched from there on; one
        process at a time does so.

        Raises:
            RefusedError: there is none.
            NoServerError: it is over ``most_bytes``.
        """
        source = f"{_path(run)}/{_ARCHIVES[name]}"
        with locked(path.parent):
            part, pauses = files.aside(path), Pauses(self.patience)
            while not path.exists():
                have = _size(part)
                try:
                    self._fetch(source, part, have, most_bytes)
                    part.replace(path)
                except UnreachableError as error:
                    if _size(part) > have:
                        pauses.restart()
                    pauses.wait(error)
                except NoServerError:
                    part.unlink(missing_ok=True)
                    raise
        return path.stat().st_size

    def _fetch(self, source: str, part: Path, have: int, most_bytes: int) -> None:
        """Append what a file lacks to its part, of which these bytes are here."""
        url, asked = self.entry.url, {"Range": f"bytes={have}-"} if have else {}
        with self._sent(HttpRequest("GET", source, headers=asked)) as answer:
            begins = answer.headers.get("Content-Range", "")
            if answer.status == NO_SUCH_RANGE and begins == f"bytes */{have}":
                return  # it is whole
            partial = answer.status == PARTIAL and begins.startswith(f"bytes {have}-")
            if answer.status != OK and not partial:
                raise NoServerError(
                    f"{url} sends another part of a file than asked for"
                )
            with part.open("ab") as file:
                file.truncate(have if partial else 0)
                while piece := answer.body.read1(PIECE_BYTES):
                    file.write(piece)
                    if file.tell() > most_bytes:
                        text = f"{url} sends over {most_bytes:,} bytes of a file"
                        raise NoServerError(text)

    def _asked(
        self,
        method: str,
        path: str,
        body: bytes | io.FileIO | None = None,
        query: dict[str, str] | None = None,
        *,
        once: bool = False,
    ) -> bytes:
        """Return the whole answer to a request.

        Unless it is sent ``once`` it is repeated where the server is not reached.
        """
        kind = JSON if isinstance(body, bytes) else BYTES
        headers = {"Content-Type": kind} if body is not None else {}
        request = HttpRequest(method, path, body, query or {}, headers)
        pauses = Pauses(NONE if once else self.patience)
        while True:
            try:
                with self._sent(request) as answer:
                    return self._whole(answer)
            except UnreachableError as error:
                pauses.wait(error)

    @contextmanager
    def _sent(self, request: HttpRequest) -> Iterator[HttpAnswer]:
        """Yield the answer to one request; raise the error of a refusal."""
        if not self.entry.token and request.path not in PUBLIC:
            url = self.entry.url
            raise LoginNeededError(url, f"you are not logged in at {url}")
        request = replace(request, path=f"{API}{request.path}")
        with self._connection.send(request) as answer:
            ranged = answer.status == NO_SUCH_RANGE and "Range" in request.headers
            if answer.status >= 400 and not ranged:
                raise self._refused(answer.status, self._whole(answer))
            yield answer

    def _whole(self, answer: HttpAnswer) -> bytes:
        body = answer.body.read(bounds.MOST_ANSWERED_BYTES + 1)
        if len(body) > bounds.MOST_ANSWERED_BYTES:
            most = f"{bounds.MOST_ANSWERED_BYTES:,}"
            raise NoServerError(f"{self.entry.url} answers with over {most} bytes")
        return body

    def _ask(
        self,
        kind: type[_T],
        method: str,
        path: str,
        body: bytes | None = None,
        query: dict[str, str] | None = None,
        *,
        once: bool = False,
    ) -> _T:
        """Return the answer to a request as what it has to be."""
        answer = self._asked(method, path, body, query, once=once)
        try:
            return msgspec.json.decode(answer, type=kind)
        except _UNREADABLE as error:
            raise self._no_server(str(error)) from error

    def _refused(self, status: int, body: bytes) -> RaiError:
        """Return the error of a refusal."""
        refusal = _refusal(status, body)
        if refusal is None:
            if status == 500 or status in PASSING:
                return UnreachableError(f"{self.entry.url} cannot serve now ({status})")
            return self._no_server(f"it answers {status}")
        error = refused(refusal, self.entry.url, time.time())
        if status in PASSING and refusal.retry_at is None:
            return UnreachableError(*error.problems)
        return error

    def _no_server(self, why: str) -> NoServerError:
        text = f"{self.entry.url} does not answer as a server of rai does"
        hint = "check the address; it may be of another version"
        return NoServerError(Problem(f"{text}: {shown(why)}", hint=hint))


def _path(run: str) -> str:
    return f"/runs/{quote(run, '')}"


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _refusal(status: int, body: bytes) -> Refusal | None:
    """Return the refusal that an answer is; None if it is no server's.

    A newer server may have reasons that this client does not know. The status that was
    sent counts, not the one that it is said to be.
    """
    with suppress(*_UNREADABLE):
        return replace(msgspec.json.decode(body, type=Refusal), status=status)
    with suppress(*_UNREADABLE):
        title = msgspec.json.decode(body, type=_Titled).title
        reason = Reason.INTERNAL if status >= 500 else Reason.NOT_ALLOWED
        return Refusal(status, title, reason)
    return None


class _Titled(Struct):
    """What every refusal has, of whatever version."""

    title: str


def _number(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with, for comparison."""
    found = re.match(r"\d{1,9}(?:\.\d{1,9}){0,3}", version)
    return tuple(map(int, found[0].split("."))) if found else ()
